//! The text format that Prometheus reads.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Labels of a series: names and values.
pub type Labels = Vec<(String, String)>;

/// A histogram with fixed bounds.
#[derive(Clone, Debug)]
pub struct Histogram {
    bounds: Vec<f64>,
    counts: Vec<u64>,
    sum: f64,
    count: u64,
}

impl Histogram {
    /// Bounds from `first`, each twice the one before.
    pub fn doubling(first: f64, bounds: usize) -> Self {
        let bounds: Vec<f64> =
            std::iter::successors(Some(first), |bound| Some(bound * 2.0)).take(bounds).collect();
        Self { counts: vec![0; bounds.len()], bounds, sum: 0.0, count: 0 }
    }

    /// Records an observed value.
    pub fn note(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
        for (bound, count) in self.bounds.iter().zip(&mut self.counts) {
            *count += u64::from(value <= *bound);
        }
    }
}

/// A page of metrics.
pub struct Page {
    prefix: String,
    /// Labels that every series has.
    common: Labels,
    text: String,
}

impl Page {
    /// An empty page; every name gets the prefix, and every series the shard where there is one.
    pub fn new(namespace: &str, shard: Option<&str>) -> Self {
        let common = shard.map(|shard| ("shard".to_owned(), shard.to_owned()));
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}_") };
        Self { prefix, common: common.into_iter().collect(), text: String::new() }
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let prefix = &self.prefix;
        let _ = writeln!(self.text, "# HELP {prefix}{name} {help}\n# TYPE {prefix}{name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &Labels, value: f64) {
        let labels: Labels = self.common.iter().chain(labels).cloned().collect();
        let (prefix, labels) = (&self.prefix, shown(&labels));
        let _ = writeln!(self.text, "{prefix}{name}{labels} {value}");
    }

    /// Values that go up and down.
    pub fn gauges(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels, f64)>,
    ) {
        self.head(name, "gauge", help);
        for (labels, value) in series {
            self.line(name, &labels, value);
        }
    }

    /// Values that only grow, by one label.
    pub fn counters(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        series: &BTreeMap<&'static str, u64>,
    ) {
        let labelled =
            |(value, count): (&&str, &u64)| (vec![(label.to_owned(), (*value).to_owned())], *count);
        self.counted(name, help, series.iter().map(labelled));
    }

    /// Values that only grow.
    pub fn counted(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels, u64)>,
    ) {
        self.head(name, "counter", help);
        for (labels, value) in series {
            self.line(name, &labels, value as f64);
        }
    }

    /// Adds a histogram without labels.
    pub fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.histograms(name, help, [(Labels::new(), histogram)]);
    }

    /// Adds histograms of one name, each with its labels.
    pub fn histograms<'a>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels, &'a Histogram)>,
    ) {
        self.head(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        for (labels, histogram) in series {
            let up_to = |bound: String| {
                let mut labels = labels.clone();
                labels.push(("le".to_owned(), bound));
                labels
            };
            for (bound, count) in histogram.bounds.iter().zip(&histogram.counts) {
                self.line(&bucket, &up_to(bound.to_string()), *count as f64);
            }
            self.line(&bucket, &up_to("+Inf".to_owned()), histogram.count as f64);
            self.line(&format!("{name}_sum"), &labels, histogram.sum);
            self.line(&format!("{name}_count"), &labels, histogram.count as f64);
        }
    }

    /// The page as text.
    pub fn finish(self) -> String {
        self.text
    }
}

/// Several pages as one: what is about the same metric stands together.
pub fn merged(pages: &[String]) -> String {
    let mut order: Vec<&str> = Vec::new();
    let mut parts: BTreeMap<&str, (String, String)> = BTreeMap::new();
    for page in pages {
        let mut name = "";
        for line in page.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                name = rest.split(' ').next().unwrap_or_default();
                if !parts.contains_key(name) {
                    order.push(name);
                }
                parts.entry(name).or_default().0.clear();
            }
            let (head, series) = parts.entry(name).or_default();
            let _ = writeln!(if line.starts_with('#') { head } else { series }, "{line}");
        }
    }
    let part = |name: &&str| parts.get(name).map(|(head, series)| format!("{head}{series}"));
    order.iter().filter_map(part).collect()
}

fn shown(labels: &Labels) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let escaped =
        |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", pairs.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_reads_as_prometheus_wants_it() {
        let mut histogram = Histogram::doubling(5.0, 2);
        for value in [4.0, 7.0, 100.0] {
            histogram.note(value);
        }
        let mut page = Page::new("kai", None);
        let labels = vec![("queue_name".to_owned(), "a \"b\"\n".to_owned())];
        page.gauges("queue_info", "Queues.", [(labels, 1.0)]);
        page.histogram("h", "Times.", &histogram);
        let wanted = "# HELP kai_queue_info Queues.\n# TYPE kai_queue_info gauge\nkai_queue_info{queue_name=\"a \\\"b\\\"\\n\"} 1\n\
                      # HELP kai_h Times.\n# TYPE kai_h histogram\nkai_h_bucket{le=\"5\"} 1\nkai_h_bucket{le=\"10\"} 2\n\
                      kai_h_bucket{le=\"+Inf\"} 3\nkai_h_sum 111\nkai_h_count 3\n";
        assert_eq!(page.finish(), wanted);
    }

    #[test]
    fn pages_of_shards_become_one() {
        let page = |shard: &str| {
            let mut page = Page::new("kai", Some(shard));
            page.gauges("a", "A.", [(Labels::new(), 1.0)]);
            page.gauges("b", "B.", [(Labels::new(), 2.0)]);
            page.finish()
        };
        assert_eq!(
            merged(&[page("x"), page("y")]),
            "# HELP kai_a A.\n# TYPE kai_a gauge\nkai_a{shard=\"x\"} 1\nkai_a{shard=\"y\"} 1\n\
             # HELP kai_b B.\n# TYPE kai_b gauge\nkai_b{shard=\"x\"} 2\nkai_b{shard=\"y\"} 2\n"
        );
    }
}
