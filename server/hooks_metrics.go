package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// HookCounts are the numbers of a hook since the node has started.
type HookCounts struct {
	Posted, Failed, Lost uint64        // events that were accepted, requests that were not, and events that were given up
	Behind               time.Duration // for how long the oldest events have not been accepted; 0 if there are none
}

// WatchHooks adds the metrics of the hooks of the node.
func (m *Metrics) WatchHooks(hooks func() map[string]HookCounts) { m.hooks.Store(&hooks) }

// hookMetrics adds the counts of hooks.
func hookMetrics(all map[string]HookCounts, out chan<- prometheus.Metric) {
	posted := desc("hook_events_total", "Events that the URL of the hook has accepted.", "hook")
	failed := desc("hook_failures_total", "Requests that the URL of the hook has not accepted.", "hook")
	lost := desc("hook_lost_events_total", "Events that were given up because the URL of the hook did not accept them.", "hook")
	behind := desc("hook_behind_seconds", "For how long the URL of the hook has not accepted the oldest events; 0 if there are none.", "hook")
	for name, c := range all {
		for _, one := range []struct {
			desc *prometheus.Desc
			n    uint64
		}{{posted, c.Posted}, {failed, c.Failed}, {lost, c.Lost}} {
			out <- prometheus.MustNewConstMetric(one.desc, prometheus.CounterValue, float64(one.n), name)
		}
		out <- prometheus.MustNewConstMetric(behind, prometheus.GaugeValue, c.Behind.Seconds(), name)
	}
}
