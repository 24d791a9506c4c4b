package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// history has the events in a cluster with faults. All times are of the clock of the
// machine on which all of it ran, in microseconds.
type history struct {
	lease    int64
	attempts []attempt
	changes  []change          // of permits, as the database has committed them, by time
	deaths   map[string]int64  // of holders, for the database: it may give their permits to others from then on
	maxima   []maximum         // of limits, as operators have set them
	pauses   []pause           // of the limit total
	stops    []stop            // of nodes
	rate     pacing            // of the limit pace
	draws    []draw            // of tokens of the limit pace, by time
	tasks    map[string]string // the states of all accepted tasks in the end, by id

	// isUnseen says that the grants are not known: there are no changes, deaths, pauses and draws.
	isUnseen bool
	losses   []loss // if isUnseen: when nodes have noticed that they are dead for the others
}

// loss is when a node has noticed that it is dead for the others.
type loss struct {
	node string
	at   int64
}

// attempt is the note of a handler of one of its calls. It certainly ran from begin to last.
type attempt struct {
	task, node  string // node is the name of a process
	version     uint64 // of the task
	typ         string
	partner     string
	begin, last int64
}

// limits returns the limits that count an attempt, by the names that the coordinator knows.
func (a attempt) limits() []string {
	if a.typ == "mail" {
		return []string{"total"}
	}
	return []string{"total", "partner/" + a.partner}
}

// change says that a holder has so many permits of a limit from then on.
type change struct {
	at     int64
	limit  string
	holder string // by which a node holds permits until it loses all of them
	node   string // the node of the holder; "" if the node has not become a member
	held   int
	most   int // how many the limit had by the database
}

// maximum is how many may run under a limit, at a time between from and until. A maximum that was
// replaced ends when all nodes have learned of that, and their permits above the next one are given back.
type maximum struct {
	limit       string
	most        int
	from, until int64
}

// pause is a time during which all nodes knew that nothing may start under the limit total.
type pause struct{ from, until int64 }

// stop is a time during which a node stood still: its handlers do not learn that its lease is over.
type stop struct {
	node        string // "" is all of them
	from, until int64
}

// pacing is a rate: a token each interval, and burst of them after a rest.
type pacing struct {
	interval int64
	burst    int
}

// draw is how many tokens a node got.
type draw struct {
	at     int64
	tokens int
}

// never is later than every time.
const never = int64(math.MaxInt64)

// check returns the broken promises in a history.
func (h *history) check() (wrong []string) {
	all := []func() []string{h.checkTasks, h.checkAlone, h.checkMost, h.checkLapsed, h.checkStarts}
	if !h.isUnseen {
		all = append(all, h.checkGrants, h.checkHeld, h.checkPauses, h.checkDraws)
	}
	for _, of := range all {
		wrong = append(wrong, of()...)
	}
	return wrong
}

// checkTasks looks that every accepted task has ended with success, and that nothing else was run.
func (h *history) checkTasks() (wrong []string) {
	began := make(map[string]bool)
	for _, a := range h.attempts {
		if began[a.task] = true; h.tasks[a.task] == "" {
			wrong = append(wrong, fmt.Sprintf("task %s ran and is not there", a.task))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(h.tasks)) {
		if state := h.tasks[id]; state != "done" || !began[id] {
			wrong = append(wrong, fmt.Sprintf("task %s is %s in the end; it began: %v", id, state, began[id]))
		}
	}
	return wrong
}

// lapse returns when the permits of an attempt were taken from its node, and whether that may have
// gone on with it, because it stood still: until its end, at most that time.
func (h *history) lapse(a attempt) (at, until int64) {
	at = h.permitsEnd(a)
	for _, s := range h.stops {
		if (s.node == "" || s.node == a.node) && s.until >= at-h.lease/6 && s.from <= a.last && at != never {
			until = max(until, s.until+h.lease/2)
		}
	}
	return at, until
}

// permitsEnd returns when the holder was dead for the coordinator that had the permits of an attempt. If that is not
// known, it is the earliest possible time: a node that lost its permits after it stood still may
// have lost them from the beginning of that on.
func (h *history) permitsEnd(a attempt) int64 {
	if h.isUnseen {
		return h.earliestEnd(a)
	}
	holder := ""
	for _, c := range h.changes {
		if c.node == a.node && c.limit == "total" && c.held > 0 && c.at <= a.begin {
			holder = c.holder
		}
	}
	if at, ok := h.deaths[holder]; ok {
		return at
	}
	return never
}

// earliestEnd returns when a node that stood still can have lost the permits of an attempt, if it has lost them.
func (h *history) earliestEnd(a attempt) int64 {
	earliest := never
	for _, l := range h.losses {
		for _, s := range h.stops {
			isNear := s.from <= l.at+h.lease/3 && s.until >= l.at-h.lease/6
			if isNear && l.node == a.node && l.at >= a.begin && (s.node == "" || s.node == a.node) {
				earliest = min(earliest, max(s.from, a.begin))
			}
		}
	}
	return earliest
}

// counted returns until when an attempt counts: to its end, unless its node stood still when it lost the
// permits. A handler on such a node cannot be stopped, and only fences protect from its effects.
func (h *history) counted(a attempt) int64 {
	if at, until := h.lapse(a); until > 0 {
		return min(a.last, at)
	}
	return a.last
}

// checkLapsed looks that handlers are stopped when their node has lost its permits, also if it stood still.
func (h *history) checkLapsed() (wrong []string) {
	for _, a := range h.attempts {
		if at, until := h.lapse(a); until > 0 && a.last > max(at, until) {
			wrong = append(wrong, fmt.Sprintf("%v goes on after its node has lost its permits, and could know", a))
		}
	}
	return wrong
}

// checkAlone looks that no two attempts of a task were made at once.
func (h *history) checkAlone() (wrong []string) {
	latest := make(map[string]attempt)
	for _, a := range h.byBegin() {
		other, ok := latest[a.task]
		if ok && h.counted(other) >= a.begin {
			wrong = append(wrong, fmt.Sprintf("%v and %v are of one task at once", other, a))
		}
		if !ok || h.counted(other) < h.counted(a) {
			latest[a.task] = a
		}
	}
	return wrong
}

func (h *history) byBegin() []attempt {
	return slices.SortedFunc(slices.Values(h.attempts), func(a, b attempt) int { return cmp.Compare(a.begin, b.begin) })
}

// most returns how many may run under a limit at a time.
func (h *history) most(limit string, at int64) (most int) {
	for _, m := range h.maxima {
		if m.limit == limit && m.from <= at && at <= m.until {
			most = max(most, m.most)
		}
	}
	return most
}

// checkGrants looks that the database has granted no more permits than there are.
func (h *history) checkGrants() (wrong []string) {
	held := make(map[string]map[string]int) // by limit and holder
	for _, c := range h.changes {
		if held[c.limit] == nil {
			held[c.limit] = make(map[string]int)
		}
		before := held[c.limit][c.holder]
		held[c.limit][c.holder] = c.held
		if sum := total(held[c.limit]); c.held > before && (sum > c.most || sum > h.most(c.limit, c.at)) {
			wrong = append(wrong, fmt.Sprintf("%v makes %d permits of %s, of %d", c, sum, c.limit, h.most(c.limit, c.at)))
		}
	}
	return wrong
}

func total(of map[string]int) (sum int) {
	for _, n := range of {
		sum += n
	}
	return sum
}

// event is the begin or the end of an attempt, or a change of permits.
type event struct {
	at     int64
	delta  int    // of running attempts
	change change // if delta is 0
	of     attempt
}

// events returns the events under a limit, by time. At the same time, ends and changes of
// permits are first.
func (h *history) events(limit string) (all []event) {
	for _, a := range h.attempts {
		if slices.Contains(a.limits(), limit) {
			all = append(all, event{at: a.begin, delta: +1, of: a}, event{at: max(a.begin, h.counted(a)), delta: -1, of: a})
		}
	}
	for _, c := range h.changes {
		if c.limit == limit {
			all = append(all, event{at: c.at, change: c})
		}
	}
	slices.SortStableFunc(all, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(order(a), order(b)))
	})
	return all
}

func order(e event) int {
	if e.of.begin == e.at && e.delta < 0 { // it began and ended at once
		return 2
	}
	return e.delta
}

func (h *history) limits() []string {
	names := make(map[string]bool)
	for _, m := range h.maxima {
		names[m.limit] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// checkHeld looks that no node runs more under a limit than it has permits.
func (h *history) checkHeld() (wrong []string) {
	for _, limit := range h.limits() {
		running, held := make(map[string]int), make(map[string]map[string]int) // by node and holder
		for _, e := range h.events(limit) {
			node := cmp.Or(e.of.node, e.change.node)
			if held[node] == nil {
				held[node] = make(map[string]int)
			}
			if e.delta == 0 {
				held[node][e.change.holder] = e.change.held
			}
			if running[node] += e.delta; e.delta >= 0 && running[node] > total(held[node]) {
				wrong = append(wrong, fmt.Sprintf("at %d node %s runs %d under %s and has %d permits: %v", e.at, node, running[node], limit, total(held[node]), e))
			}
		}
	}
	return wrong
}

// checkMost looks that no attempt begins when as many run as may.
func (h *history) checkMost() (wrong []string) {
	for _, limit := range h.limits() {
		running := 0
		for _, e := range h.events(limit) {
			if running += e.delta; e.delta > 0 && running > h.most(limit, e.at) {
				wrong = append(wrong, fmt.Sprintf("%v is number %d under %s, of %d", e.of, running, limit, h.most(limit, e.at)))
			}
		}
	}
	return wrong
}

// peak returns how many ran at most under a limit.
func (h *history) peak(limit string) (most int) {
	running := 0
	for _, e := range h.events(limit) {
		running += e.delta
		most = max(most, running)
	}
	return most
}

// checkPauses checks that during a pause only tasks begin that were being started: they had permits already.
func (h *history) checkPauses() (wrong []string) {
	for _, p := range h.pauses {
		held, running, begun := make(map[string]int), 0, 0
		for _, e := range h.events("total") {
			switch {
			case e.at <= p.from && e.delta == 0:
				held[e.change.holder] = e.change.held
			case e.at <= p.from:
				running += e.delta
			case e.at < p.until && e.delta > 0:
				begun++
			}
		}
		if begun > max(0, total(held)-running) {
			wrong = append(wrong, fmt.Sprintf("during the pause %v %d attempts begin; %d permits were held, for %d that ran", p, begun, total(held), running))
		}
	}
	return wrong
}

// checkDraws looks that in any time no more tokens were drawn than burst and one for each interval.
func (h *history) checkDraws() (wrong []string) {
	due := int64(math.MinInt64) // when all of the burst is there again
	for _, d := range h.draws {
		due = max(due, d.at) + int64(d.tokens)*h.rate.interval
		if over := due - d.at - int64(h.rate.burst)*h.rate.interval; over > 0 {
			wrong = append(wrong, fmt.Sprintf("the draw %v is %d µs too early", d, over))
		}
	}
	return wrong
}

// checkStarts checks that in any time no more paced attempts begin than the rate allows, with the attempts by
// tokens that nodes have drawn: of each for up to 100 ms, and of tasks that are being started, each of
// which has a permit of the limit total.
func (h *history) checkStarts() (wrong []string) {
	var begins []int64
	for _, a := range h.byBegin() {
		if a.typ == "mail" {
			begins = append(begins, a.begin)
		}
	}
	most := 0
	for _, m := range h.maxima {
		if m.limit == "total" {
			most = max(most, m.most)
		}
	}
	const nodes = 3
	early := nodes*(most+max(1, int(100_000/h.rate.interval))) + h.rate.burst
	due := int64(math.MinInt64)
	for _, at := range begins {
		if due = max(due, at) + h.rate.interval; due-at > int64(early)*h.rate.interval {
			wrong = append(wrong, fmt.Sprintf("the paced attempt at %d is %d µs too early", at, due-at-int64(early)*h.rate.interval))
		}
	}
	return wrong
}

// String describes an attempt.
func (a attempt) String() string {
	return fmt.Sprintf("%s version %d of %s on %s from %d to %d", a.task, a.version, strings.Join(a.limits(), " and "), a.node, a.begin, a.last)
}
