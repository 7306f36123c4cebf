//! The settings, and which functions of this process act. Functions that do not act follow the cluster all the same, so that
//! they take over warm.

use std::ops::Deref;

use kai_api::function::Function;
use kai_client::lease::{Leading, Turn};
use kai_client::request::EvictBy;
use kai_settings::planner::{BindRequests, Settings};
use kai_settings::status::{Duties, StatusSettings};
use kai_translate::placement::PlacementSigner;

use crate::status::verdicts::TextOptions;

/// The plugin that publishes the order of jobs.
const REFLECT_JOB_ORDER: &str = "reflectjoborder";

/// The settings of a planner, and the functions of it that act.
pub(super) struct ActiveSettings {
    settings: Settings,
    signer: PlacementSigner,
    leading: Leading,
}

/// What an acquired or lost lease requires of the planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnEffect {
    BeginScheduling,
    EndScheduling,
    BeginGrouping,
    None,
}

impl Deref for ActiveSettings {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.settings
    }
}

impl ActiveSettings {
    /// Without an election every function acts from the start.
    pub(super) fn new(settings: Settings) -> Self {
        let leading = match settings.election {
            Some(_) => Leading::new(),
            None => settings.functions.clone(),
        };
        Self { signer: settings.placement_signer(), leading, settings }
    }

    pub(super) fn signer(&self) -> &PlacementSigner {
        &self.signer
    }

    /// A function begins or ceases to act.
    pub(super) fn take_turn(&mut self, turn: Turn) -> TurnEffect {
        let Turn { function, leads } = turn;
        if leads {
            self.leading.insert(function);
        } else {
            self.leading.remove(&function);
        }
        match (function, leads) {
            (Function::Scheduler, true) => TurnEffect::BeginScheduling,
            (Function::Scheduler, false) => TurnEffect::EndScheduling,
            (Function::PodGrouper, true) => TurnEffect::BeginGrouping,
            _ => TurnEffect::None,
        }
    }

    /// Plans are made and carried out.
    pub(super) fn schedules(&self) -> bool {
        self.settings.schedules && self.leading.contains(&Function::Scheduler)
    }

    /// The binder of this process carries out what its scheduler decides: bind requests need not be objects.
    pub(super) fn hands_binds_over(&self) -> bool {
        let scheduler = &self.settings.rules.scheduler_name;
        let binder = self.settings.binder.as_ref();
        self.settings.bind_requests == BindRequests::Needed
            && self.schedules()
            && self.leading.contains(&Function::Binder)
            && binder.is_some_and(|binder| binder.scheduler_name == *scheduler)
    }

    /// This process writes pod groups and links pods to them.
    pub(super) fn groups_pods(&self) -> bool {
        self.settings.grouper.is_some() && self.leading.contains(&Function::PodGrouper)
    }

    /// The statuses that the acting functions write.
    pub(super) fn duties(&self) -> Duties {
        let wanted = self.settings.status.duties;
        Duties {
            verdicts: wanted.verdicts && self.leading.contains(&Function::Scheduler),
            groups: wanted.groups && self.leading.contains(&Function::PodGroupController),
            queues: wanted.queues && self.leading.contains(&Function::QueueController),
        }
    }

    /// Settings of statuses, with the duties of the acting functions.
    pub(super) fn status_settings(&self) -> StatusSettings {
        StatusSettings { duties: self.duties(), ..self.settings.status.clone() }
    }

    /// How texts about waiting pods are worded.
    pub(super) fn texts(&self) -> TextOptions {
        let settings = &self.settings;
        TextOptions {
            detailed: settings.config.params.detailed_fit_errors,
            node_pool: settings.partition.name().map(Into::into),
            marks_over_limit: settings.status.marks_over_limit
                || settings.functions.contains(&Function::NodeScaleAdjuster),
        }
    }

    /// How pods are evicted where no disruption budget is overridden.
    pub(super) fn evict_by(&self) -> EvictBy {
        match self.settings.evict_by {
            EvictBy::Delete if self.settings.mark_victims => EvictBy::MarkedDelete,
            by => by,
        }
    }

    pub(super) fn reflects_job_order(&self) -> bool {
        self.settings.config.plugins.iter().any(|plugin| *plugin.name == *REFLECT_JOB_ORDER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elected() -> ActiveSettings {
        let mut settings = ActiveSettings::new(Settings::default());
        settings.leading.clear();
        settings
    }

    #[test]
    fn without_an_election_every_function_acts() {
        let settings = ActiveSettings::new(Settings::default());
        assert!(settings.schedules() && settings.groups_pods());
        assert_eq!(settings.duties(), Settings::default().status.duties);
    }

    #[test]
    fn each_function_has_duties_while_it_leads() {
        let mut settings = elected();
        let nothing = Duties { verdicts: false, groups: false, queues: false };
        assert_eq!(settings.duties(), nothing);
        let turn = |function, leads| Turn { function, leads };
        let effect = settings.take_turn(turn(Function::Scheduler, true));
        assert_eq!(effect, TurnEffect::BeginScheduling);
        assert_eq!(settings.duties(), Duties { verdicts: true, ..nothing });
        assert!(settings.schedules() && !settings.groups_pods());
        settings.take_turn(turn(Function::QueueController, true));
        let effect = settings.take_turn(turn(Function::Scheduler, false));
        assert_eq!(effect, TurnEffect::EndScheduling);
        assert_eq!(settings.duties(), Duties { queues: true, ..nothing });
        let effect = settings.take_turn(turn(Function::PodGrouper, true));
        assert_eq!(effect, TurnEffect::BeginGrouping);
    }

    #[test]
    fn binds_are_handed_over_while_scheduler_and_binder_lead_here() {
        let mut settings = elected();
        let turn = |function, leads| Turn { function, leads };
        settings.take_turn(turn(Function::Scheduler, true));
        assert!(!settings.hands_binds_over());
        settings.take_turn(turn(Function::Binder, true));
        assert!(settings.hands_binds_over());
        settings.take_turn(turn(Function::Scheduler, false));
        assert!(!settings.hands_binds_over());
        let hands_over = |settings: Settings| ActiveSettings::new(settings).hands_binds_over();
        assert!(hands_over(Settings::default()));
        let always = BindRequests::Always;
        assert!(!hands_over(Settings { bind_requests: always, ..Settings::default() }));
        assert!(!hands_over(Settings { binder: None, ..Settings::default() }), "another process");
    }

    #[test]
    fn deleted_victims_are_marked_only_where_the_settings_require_it() {
        let by = |evict_by, mark_victims| {
            let settings = Settings { evict_by, mark_victims, ..Settings::default() };
            ActiveSettings::new(settings).evict_by()
        };
        assert_eq!(by(EvictBy::Delete, true), EvictBy::MarkedDelete);
        assert_eq!(by(EvictBy::Delete, false), EvictBy::Delete);
    }
}
