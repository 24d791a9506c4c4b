package server

import (
	"github.com/prometheus/client_golang/prometheus"
)

// sourceMetrics adds the counts of a node for its sources.
func sourceMetrics(all map[string]SourceCounts, out chan<- prometheus.Metric) {
	lag := desc("source_lag", "Offsets between the positions and the ends of the partitions that the node reads. The sum over all nodes is the lag of the source.", "source")
	partitions := desc("source_partitions", "Partitions of the source that the node reads at present.", "source")
	waiting := desc("source_waiting", "1 if a partition that the node reads waits, for instance for room in the backlog of a type.", "source")
	records := desc("source_records_total", "Records of the source that the node has read.", "source")
	tasks := desc("source_tasks_total", "Tasks that the node has added for records of the source.", "source")
	unreadable := desc("source_unreadable_total", "Records of the source that could not become tasks. Each is a task in error.", "source")
	skipped := desc("source_skipped_total", "Records of the source that its filter left out, or that had a task already.", "source")
	lost := desc("source_lost_offsets_total", "Offsets of the source that its topics did not have any more when the node was to read them.", "source")
	for name, c := range all {
		for _, one := range []struct {
			desc *prometheus.Desc
			v    float64
		}{{lag, float64(c.Lag)}, {partitions, float64(c.Reading)}, {waiting, truth(c.Waits)}} {
			out <- prometheus.MustNewConstMetric(one.desc, prometheus.GaugeValue, one.v, name)
		}
		for _, one := range []struct {
			desc *prometheus.Desc
			n    uint64
		}{{records, c.Records}, {tasks, c.Tasks}, {unreadable, c.Unreadable}, {skipped, c.Skipped}, {lost, c.Lost}} {
			out <- prometheus.MustNewConstMetric(one.desc, prometheus.CounterValue, float64(one.n), name)
		}
	}
}
