//! Tolerations, of pods for nodes and of requests for devices.

use k8s_openapi::api::resource::v1::DeviceToleration;
use kai_core::input::pod::Toleration;

use crate::node::effect;
use crate::selectors::non_empty;
use crate::view;

/// What a pod tolerates of nodes; one that is not understood tolerates nothing.
pub(crate) fn of_pod(toleration: &view::Toleration) -> Option<Toleration> {
    let view::Toleration { key, operator, value, effect, toleration_seconds: _ } = toleration;
    read(key.as_ref(), operator.as_deref(), value.as_deref(), effect.as_deref())
}

/// What a request tolerates of devices.
pub(crate) fn of_request(toleration: &DeviceToleration) -> Option<Toleration> {
    let DeviceToleration { key, operator, value, effect, toleration_seconds: _ } = toleration;
    read(key.as_ref(), operator.as_deref(), value.as_deref(), effect.as_deref())
}

fn read(
    key: Option<&String>,
    operator: Option<&str>,
    value: Option<&str>,
    named_effect: Option<&str>,
) -> Option<Toleration> {
    let value = match operator.unwrap_or_default() {
        "Exists" => None,
        "Equal" | "" => Some(value.unwrap_or_default().into()),
        _ => return None,
    };
    let key = non_empty(key);
    if key.is_none() && value.is_some() {
        return None;
    }
    let effect = match named_effect.unwrap_or_default() {
        "" => None,
        name => Some(effect(name)?),
    };
    Some(Toleration { key, value, effect })
}
