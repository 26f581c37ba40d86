//! Boxes without layers: which of them holds what.
//!
//! Two series, each tried with all checks: without one layer (what breaks is held by nothing else), and with one layer
//! alone (what holds is held by that one). What holds with none of them is held by what every box has.

use std::collections::{BTreeMap, BTreeSet};

use hotcell_backends::native::Layers;

use crate::check::{Check, Group};
use crate::layer::Layer;
use crate::suite::Suite;
use crate::target::Boxed;
use crate::verdict::{Finding, Verdict};

/// What every check came to in a box that lacks layers.
#[derive(Debug, Clone)]
pub struct KnockOut {
    /// Which box this is.
    pub boxes: Boxes,
    /// What came of it.
    pub findings: Vec<Finding>,
}

/// A box that lacks layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Boxes {
    /// All layers but this.
    Without(Layer),
    /// None of the layers that can be switched off, but this.
    Only(Layer),
    /// None of the layers that can be switched off.
    Bare,
}

impl Boxes {
    /// Every box that a full examination needs, on this machine and for this user.
    pub fn all() -> Vec<Self> {
        let without = switchable().map(Self::Without);
        let only = switchable().map(Self::Only);
        without.chain(only).chain([Self::Bare]).collect()
    }

    /// Its name in reports.
    pub fn name(self) -> String {
        match self {
            Self::Without(layer) => format!("native without {layer}"),
            Self::Only(layer) => format!("native with {layer} only"),
            Self::Bare => "native without any switchable layer".to_owned(),
        }
    }

    fn layers(self) -> Layers {
        let mut layers = Layers::ALL;
        let (except, others_on) = match self {
            Self::Without(layer) => (Some((layer, false)), true),
            Self::Only(layer) => (Some((layer, true)), false),
            Self::Bare => (None, false),
        };
        switchable().for_each(|layer| layer.set(&mut layers, others_on));
        if let Some((layer, on)) = except {
            layer.set(&mut layers, on);
        }
        layers
    }
}

/// The layers that this user can do without: an ordinary user gets no box without a user namespace.
pub fn switchable() -> impl Iterator<Item = Layer> {
    let root = rustix::process::geteuid().is_root();
    Layer::SWITCHABLE.iter().copied().filter(move |layer| root || *layer != Layer::UserNamespace)
}

/// Tries every check in boxes that lack layers. What must work is left out: it works without a layer, too.
pub async fn knock_out(suite: &mut Suite, boxes: Boxes, progress: impl FnMut(&Check)) -> KnockOut {
    let target = Boxed::knocked_out(boxes.name(), boxes.layers());
    KnockOut { boxes, findings: suite.run_some(&target, |check| check.group != Group::Work, progress).await }
}

/// What holds one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Depth {
    /// Layers of which each holds it alone.
    pub alone: BTreeSet<Layer>,
    /// Layers without which it gets through.
    pub needed: BTreeSet<Layer>,
    /// It holds without any of the layers that can be switched off: by the process namespaces or the supervisor.
    pub structural: bool,
}

impl Depth {
    /// How many independent layers are known to hold it.
    pub fn count(&self) -> usize {
        match (self.structural, self.alone.len()) {
            (true, _) => 1,
            // No layer holds it alone, but some together do.
            (false, 0) => 1,
            (false, count) => count,
        }
    }
}

/// What holds each check, from a full set of boxes without layers; checks that were not tried in all are left out.
pub fn depths(runs: &[KnockOut]) -> BTreeMap<&'static str, Depth> {
    let mut depths = BTreeMap::new();
    let Some(bare) = runs.iter().find(|run| run.boxes == Boxes::Bare) else { return depths };
    for finding in &bare.findings {
        let id = finding.check.id;
        let layers_where = |want: Verdict, boxes: fn(Layer) -> Boxes| -> BTreeSet<Layer> {
            let came_to = |layer: &Layer| verdict(runs, boxes(*layer), id) == Some(want);
            switchable().filter(came_to).collect()
        };
        let depth = Depth {
            alone: layers_where(Verdict::Held, Boxes::Only),
            needed: layers_where(Verdict::Broken, Boxes::Without),
            structural: finding.verdict == Verdict::Held,
        };
        match finding.verdict {
            Verdict::Held => depths.insert(id, Depth { alone: BTreeSet::new(), ..depth }),
            Verdict::Broken => depths.insert(id, depth),
            Verdict::Vacuous | Verdict::NotApplicable => None,
        };
    }
    depths
}

/// What a check came to in one kind of box.
pub fn verdict(runs: &[KnockOut], boxes: Boxes, id: &str) -> Option<Verdict> {
    let run = runs.iter().find(|run| run.boxes == boxes)?;
    run.findings.iter().find(|finding| finding.check.id == id).map(|finding| finding.verdict)
}
