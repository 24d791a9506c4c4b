package server

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/taskengine/taskengine/engine"
)

// HandlerStatus is the state of one handler.
type HandlerStatus struct {
	Name    string
	Up      bool   // it takes tasks
	Detail  string // why it is not up
	Starts  int    // processes started so far
	Crashes int    // processes that died without being asked to
	Running int    // processes that have not ended
}

// gatherer is the collector of metrics that the engine and the handlers count themselves. It reads them at each scrape.
type gatherer struct{ *Metrics }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

// gaugeFunc collects a gauge.
type gaugeFunc = func(d *prometheus.Desc, v float64, labels ...string)

// Describe implements [prometheus.Collector]. It sends nothing, because the series depend on the node. No other collector
// uses their names.
func (g gatherer) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (g gatherer) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	if h := g.health.Load(); h != nil {
		gauge(desc("ready", "1 if the node is ready for work, as /readyz says."), truth(h.isReady()))
	}
	g.stands.collect(out)
	node := g.node.Load()
	if node == nil {
		return
	}
	counter := func(name, help string, v uint64) {
		out <- prometheus.MustNewConstMetric(desc(name, help), prometheus.CounterValue, float64(v))
	}
	s := node.engine.Stats()
	counter("grabs_total", "Tasks that were grabbed.", s.Grabbed)
	counter("grabs_fused_total", "Tasks that were grabbed with their submit, in one commit.", s.Fused)
	counter("grabs_wasted_total", "Grabs that came too late: the task had changed.", s.Wasted)
	counter("results_stale_total", "Results of attempts that no longer counted; they were not applied.", s.Stale)
	counter("triggers_dropped_total", "Triggers that found no place in memory; their tasks are read from the store later.", s.Dropped)
	counter("attempts_abandoned_total", "Attempts that were given up though their handler had not returned.", s.Abandoned)
	counter("rearms_slowed_total", "Attempts that asked again and again for their task to be called again at once; it rested longer.", s.Slowed)
	counter("tasks_reclaimed_total", "Tasks that were processing on this node in the store though nothing of them was under way, and were decided about.", s.Reclaimed)
	counter("writes_refused_total", "Changes and submits that the store refused by themselves, though it took others.", s.Refused)
	gauge(desc("triggers_waiting", "Ready tasks that are in memory and wait for a slot."), float64(s.Waiting))
	gauge(desc("timers_waiting", "Tasks in memory that have a time: delayed tasks, retries, queue timeouts."), float64(s.Timers))
	gauge(desc("store_failed", "1 if the node has stopped all work because its store failed for good."), truth(isClosed(node.engine.Failed())))
	gauge(desc("writes_stuck", "Changes that the store refuses by themselves, which are tried again: usually outcomes of attempts."), float64(s.Stuck))
	gauge(desc("lock_waits", "Changes and submits that are tried apart because another transaction may keep rows locked that they need."), float64(s.LockWaits))
	if blockers := blockersOf(node.engine); blockers >= 0 {
		gauge(desc("blocking_sessions", "Sessions of the database that have kept rows or tables locked that nodes need for two seconds or more."), float64(blockers))
	}
	if o, ok := node.engine.ClockOffset(); ok {
		gauge(desc("clock_offset_seconds", "How far the wall clock of the machine is ahead of the clock of the cluster, which tasks follow."), o.Ahead.Seconds())
	}
	gauge(desc("member", "1 if the node can prove that it is alive: otherwise it starts no task."), truth(node.engine.IsMember()))
	if holds, ok := node.engine.HoldsPermits(); ok {
		gauge(desc("permits_usable", "1 if the node can prove to the coordinator that it holds its permits: otherwise it starts no task under a limit of the cluster."), truth(holds))
	}
	if s, ok := node.engine.BusStatus(); ok {
		gauge(desc("bus_up", "1 if hints reach other nodes by the bus, and come from them: otherwise nodes find tasks of each other in the store, within about a second."), truth(s.Down == nil))
		counter("bus_sent_total", "Hints that were sent by the bus.", s.Sent)
		counter("bus_received_total", "Hints that have arrived by the bus.", s.Received)
		counter("bus_dropped_total", "Hints for the bus that were lost, because it was down or slow.", s.Dropped)
		counter("bus_undecodable_total", "Records of the bus that could not be decoded, and were passed over.", s.Undecodable)
	}
	g.perType(node, gauge)
	g.unhandled(node, gauge)
	g.depths(node, gauge)
	g.schedules(gauge)
	g.platforms(out)
	if s := g.sources.Load(); s != nil {
		sourceMetrics((*s).Counts(), out)
	}
	if hooks := g.hooks.Load(); hooks != nil {
		hookMetrics((*hooks)(), out)
	}
	if age := g.tokens.Load(); age != nil {
		gauge(desc("tokens_age_seconds", "How long ago the node has read the tokens of the cluster. It refuses them after 300."), (*age)().Seconds())
	}
	keys(node.engine, gauge, out)
	roles(node.engine.Roles(), gauge)
	limits(node.engine.LimitTotals(), gauge)
	backlogs(node.engine.Backlogs(), out)
	if node.handlers != nil {
		handlers(node.handlers(), out)
	}
}

// blockersOf returns how many sessions of the database may keep tasks waiting, -1 if that is not known.
func blockersOf(e *engine.Engine) int {
	ctx, cancel := context.WithTimeout(context.Background(), locksPatience)
	defer cancel()
	blockers, err := e.Blockers(ctx)
	if err != nil {
		return -1
	}
	return len(blockers)
}

func (g gatherer) perType(node *nodeParts, gauge gaugeFunc) {
	running := desc("tasks_running", "Tasks that have a slot.", "type")
	paused := desc("type_paused", "1 if tasks of the type are not started.", "type")
	other := 0
	for _, t := range node.engine.Types() {
		if _, ok := g.types[t.Name]; !ok || t.Name == otherType {
			other += t.Running
			continue
		}
		gauge(running, float64(t.Running), t.Name)
		gauge(paused, truth(t.Paused), t.Name)
	}
	gauge(running, float64(other), otherType)
}

// unhandled adds the ready tasks that no live node runs. Only the node that looks for them has any.
func (g gatherer) unhandled(node *nodeParts, gauge gaugeFunc) {
	tasks := make(map[string]int64)
	for _, u := range node.engine.Unhandled() {
		name := u.Type
		if _, ok := g.types[name]; !ok {
			name = otherType
		}
		tasks[name] += u.Tasks
	}
	d := desc("tasks_unhandled", "Ready tasks of types that no live node runs. Of the nodes that share a store, one looks for them, every half minute; a store in files counts at most a hundred of each type.", "type")
	for name, n := range tasks {
		gauge(d, float64(n), name)
	}
}

// keys adds the used and the missing keys.
func keys(e *engine.Engine, gauge gaugeFunc, out chan<- prometheus.Metric) {
	used := desc("key_decrypted_total", "Payloads, results and checkpoints that the node has decrypted with the key since it started. `taskengine doctor --keys` says whether any is left.", "key")
	for name, n := range e.KeysUsed() {
		out <- prometheus.MustNewConstMetric(used, prometheus.CounterValue, float64(n), name)
	}
	missing := desc("key_missing_tasks", "Tasks of this node that wait for a key that it does not have, about.", "key")
	for _, k := range e.MissingKeys() {
		gauge(missing, float64(k.Tasks), strings.ToValidUTF8(k.Name, "?"))
	}
}

func backlogs(all []engine.BacklogStatus, out chan<- prometheus.Metric) {
	tasks := desc("backlog_tasks", "Tasks that are waiting or submitted, as far as the node knows, of types with a max_backlog.", "type")
	most := desc("backlog_max", "The max_backlog of the type.", "type")
	refused := desc("backlog_refused_total", "Tasks that the node did not accept because the backlog of their type was full.", "type")
	dropped := desc("backlog_dropped_total", "Tasks that the node cancelled because newer ones exceeded the max_backlog of their type.", "type")
	waiting := desc("backlog_waiting", "Tasks that are not added yet, because their callers wait on the node for room in the backlog of their type.", "type")
	for _, b := range all {
		out <- prometheus.MustNewConstMetric(waiting, prometheus.GaugeValue, float64(b.Waiting), b.Type)
		out <- prometheus.MustNewConstMetric(tasks, prometheus.GaugeValue, float64(b.Tasks), b.Type)
		out <- prometheus.MustNewConstMetric(most, prometheus.GaugeValue, float64(b.Max), b.Type)
		out <- prometheus.MustNewConstMetric(refused, prometheus.CounterValue, float64(b.Refused), b.Type)
		out <- prometheus.MustNewConstMetric(dropped, prometheus.CounterValue, float64(b.Dropped), b.Type)
	}
}

func handlers(all []HandlerStatus, out chan<- prometheus.Metric) {
	up := desc("handler_up", "1 if the handler takes tasks.", "handler")
	starts := desc("handler_starts_total", "Processes of the handler that were started.", "handler")
	running := desc("handler_processes", "Processes of the handler that have not ended.", "handler")
	crashes := desc("handler_crashes_total", "Processes of the handler that died unasked.", "handler")
	for _, h := range all {
		out <- prometheus.MustNewConstMetric(up, prometheus.GaugeValue, truth(h.Up), h.Name)
		out <- prometheus.MustNewConstMetric(running, prometheus.GaugeValue, float64(h.Running), h.Name)
		out <- prometheus.MustNewConstMetric(starts, prometheus.CounterValue, float64(h.Starts), h.Name)
		out <- prometheus.MustNewConstMetric(crashes, prometheus.CounterValue, float64(h.Crashes), h.Name)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
