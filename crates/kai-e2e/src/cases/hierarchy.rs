//! Queues of several levels.

use serde_json::json;

use super::Run;
use crate::objects::{pod, queue};
use crate::room::Room;

pub(super) const CASES: &[(&str, Run)] = &[
    ("quota: a hierarchy of one level", |room| Box::pin(levels(room, 1))),
    ("quota: a hierarchy of three levels", |room| Box::pin(levels(room, 3))),
    ("quota: a hierarchy of four levels", |room| Box::pin(levels(room, 4))),
];

async fn levels(room: &Room, levels: usize) -> anyhow::Result<()> {
    room.node("n", json!({}), json!({})).await?;
    for level in 0..levels {
        let own = queue(&format!("q{level}"));
        let own = if level == 0 { own } else { own.below(&format!("q{}", level - 1)) };
        room.queue(&own).await?;
    }
    room.start(&[]).await?;
    room.pod(&pod("p", &format!("q{}", levels - 1)).cpu("100m")).await?;
    room.scheduled(&["p"]).await
}
