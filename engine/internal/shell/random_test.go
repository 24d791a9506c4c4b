package shell

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// model is a world in which everything happens at random: databases fail in each way, callers and
// handlers end as they like, and shards are moved.
type model struct {
	*world
	*rapid.T
	set     policy.Set
	away    []bool            // by database
	refused map[task.ID]error // batches with these tasks fail, and nothing of them is done
	late    []*lateWork
	ids     int
	counts  bool          // the backlogs are counted again and again, as an engine does once it has to
	waiting []*Submission // that wait for room, in the order in which they came
	keyed   int           // the number of ordering keys of the tasks; 0 if they have none
}

// lateWork is what a database does though it has not answered.
type lateWork struct {
	at time.Time
	do func()
}

func TestNothingIsLostAndNothingIsDoneTwiceWhateverFails(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(rt)
		for range rapid.IntRange(20, 150).Draw(rt, "steps") {
			m.happen()
			m.check()
		}
		m.calm()
	})
}

func newModel(rt *rapid.T) *model {
	typ := func(set func(*policy.Type)) policy.Type {
		p := policy.DefaultType()
		p.Retry = policy.Retry{Max: 1000, Backoff: policy.Backoff{Kind: policy.Fixed, Initial: time.Second}}
		p.MaxCrashes = 0
		set(&p)
		return p
	}
	lanes := rapid.IntRange(1, 3).Draw(rt, "lanes")
	m := &model{
		T: rt, away: make([]bool, lanes), refused: map[task.ID]error{},
		set: policy.Set{
			Slots: rapid.IntRange(1, 4).Draw(rt, "slots"),
			Types: map[string]policy.Type{
				"plain":   typ(func(p *policy.Type) { p.Ordering.Inherit = true }),
				"relaxed": typ(func(p *policy.Type) { p.Relaxed = true }),
				"gone":    typ(func(p *policy.Type) { p.Retention.Done = 0 }),
				"narrow":  typ(func(p *policy.Type) { p.MaxBacklog = policy.Backlog{Max: 3, WhenFull: policy.PauseSource} }),
				"strait":  typ(func(p *policy.Type) { p.MaxBacklog = policy.Backlog{Max: 2, WhenFull: policy.PauseSource} }),
				"hasty":   typ(func(p *policy.Type) { p.Timeout.Queue = 5 * time.Second }),
			},
		},
	}
	if lanes == 1 {
		m.keyed = rapid.IntRange(0, 2).Draw(rt, "ordering keys")
	}
	m.world = newWorld(lanes, rapid.Bool().Draw(rt, "no sync"), m.set, rt.Fatalf)
	m.collect()
	return m
}

func (m *model) draw(what string, n int) int { return rapid.IntRange(0, n-1).Draw(m.T, what) }

// oneOf returns one of some things, in an order that does not depend on chance.
func oneOf[T any](m *model, what string, some []T) (one T, ok bool) {
	if len(some) == 0 {
		return one, false
	}
	return some[m.draw(what, len(some))], true
}

// happen makes one thing happen.
func (m *model) happen() {
	switch op := m.draw("op", 26); op {
	case 0, 1, 2:
		m.submitSome()
	case 3:
		m.submitTx()
	case 4, 5, 6, 7, 8:
		m.giveOut(m.draw("lane", m.lanes))
	case 9, 10, 11, 12, 13, 14:
		if c, ok := oneOf(m, "batch", m.underWay); ok {
			m.answerSomehow(c)
		}
	case 15, 16, 17:
		m.endOne()
	case 18:
		if row, ok := oneOf(m, "row", m.sortedRows()); ok && !m.isBad(row.ID) {
			m.edit(row, []task.State{task.Cancelled, task.Submitted}[m.draw("to", 2)])
		}
	case 19:
		m.advance(time.Duration(m.draw("milliseconds", 1500)) * time.Millisecond)
	case 20:
		m.resolve(m.draw("in vain", 2) == 0, m.draw("can read", 4) > 0)
	case 21:
		at := m.draw("database", m.lanes)
		m.away[at] = !m.away[at]
	case 22:
		m.meddle()
	case 23:
		m.step(time.Duration(m.draw("clock", 3)-1) * time.Hour)
	case 24:
		m.counts = true
		m.recount()
	case 25:
		if sub, ok := oneOf(m, "waiting", m.waiting); ok && m.withdraw(sub) {
			m.waiting = slices.DeleteFunc(m.waiting, func(other *Submission) bool { return other == sub })
		}
	}
}

// meddle makes a task one that the databases refuse, or moves a shard.
func (m *model) meddle() {
	if m.draw("meddle", 2) == 0 {
		shard := m.draw("shard", max(1, m.ids+1))
		m.keeps[shard%task.ShardCount] = m.draw("to", m.lanes)
		return
	}
	if row, ok := oneOf(m, "bad", m.sortedRows()); ok {
		m.refused[row.ID] = []error{errRefused, errLost, storage.Undone(errLost)}[m.draw("how", 3)]
	}
}

func (m *model) isBad(id task.ID) bool { return m.refused[id] != nil }

func (m *model) sortedRows() []*task.Task {
	return slices.SortedFunc(maps.Values(m.rows), func(a, b *task.Task) int { return a.ID.Compare(b.ID) })
}

func (m *model) newTask() *task.Task {
	if m.ids > 0 && m.draw("again", 6) == 0 { // a caller repeats a request
		if t := m.taskOf(1 + m.draw("which", m.ids)); t.Type != "gone" { // of which the databases know nothing when it is done
			return t
		}
	}
	m.ids++
	return m.taskOf(m.ids)
}

func (m *model) taskOf(n int) *task.Task {
	types := slices.Sorted(maps.Keys(m.set.Types))
	t := &task.Task{ID: task.ID{14: byte(n >> 8), 15: byte(n)}, Type: types[n%len(types)], Priority: 5}
	t.Shard = t.ID.Shard()
	if m.keyed > 0 {
		t.OrderingKey, t.Turn = fmt.Sprint("key ", n%m.keyed), task.Behind
		if n%8 > 0 {
			t.Type, t.Priority = "plain", uint8(n%7)
		}
		t.Inherits = t.Type == "plain"
	}
	if n%5 == 0 {
		t.ReadyAt = beginning.Add(3 * time.Second)
	}
	return t
}

func (m *model) submitSome() {
	var rows []*task.Task
	for range 1 + m.draw("tasks", 3) {
		if t := m.newTask(); !slices.ContainsFunc(rows, func(r *task.Task) bool { return r.ID == t.ID }) {
			rows = append(rows, t)
		}
	}
	sub := &Submission{Rows: rows, Waits: m.draw("waits", 3) > 0}
	if m.draw("handler", 8) == 0 {
		sub.For = m.taskOf(1 + m.draw("for", m.ids)).ID
	}
	m.send(sub)
	if sub.place != nil {
		m.waiting = append(m.waiting, sub)
	}
}

// submitTx adds a task in a transaction of a caller, who may not learn whether it has committed.
func (m *model) submitTx() {
	t := m.newTask()
	createdAs(m.world, t)
	m.shell.InsertUncertain(m.now, []*task.Task{t})
	if m.draw("commits", 4) > 0 {
		in := storage.Inserted{}
		if m.rows[t.ID] != nil {
			in.Existing = t.ID
		} else {
			m.insert(t)
		}
		if m.draw("heard", 3) > 0 {
			m.shell.Inserted(m.now, t, in)
		}
	}
	m.collect()
}

// giveOut gives out a batch, as far as there is a writer for it.
func (m *model) giveOut(lane int) {
	busy := 0
	for _, c := range m.underWay {
		if c.Lane == lane {
			busy++
		}
	}
	if busy < 2 {
		m.next(lane)
	}
}

// answerSomehow has a batch succeed, or fail in some way.
func (m *model) answerSomehow(c *commit) {
	if err := m.mustFail(c); err != nil {
		m.answer(c, err)
		return
	}
	switch how := m.draw("how", 12); {
	case how == 0 && !c.isDone: // only later
		do := m.world.later(c)
		m.lateDo(do)
		m.answer(c, []error{errAway, errLost}[m.draw("error", 2)])
	case how == 1 && !c.isDone:
		m.answer(c, []error{errAway, storage.Undone(errAway), errLost, storage.Undone(errLost), errRefused}[m.draw("error", 5)])
	case how == 2:
		m.do(c)
		m.answer(c, []error{errAway, errLost}[m.draw("error", 2)])
	case how == 3:
		m.do(c) // and answered another time
	default:
		m.answer(c, nil)
	}
}

// mustFail returns why a batch fails that nothing is done of, or nil.
func (m *model) mustFail(c *commit) error {
	if c.isDone {
		return nil
	}
	if m.away[c.Lane] {
		return errAway
	}
	for _, t := range c.Do.Insert {
		if err := m.refused[t.ID]; err != nil {
			return err
		}
	}
	for i := range c.Do.Swap {
		if err := m.refused[c.Do.Swap[i].ID]; err != nil {
			return err
		}
	}
	return nil
}

// lateDo has something done within the next minute.
func (m *model) lateDo(do func()) {
	m.late = append(m.late, &lateWork{m.now.Add(time.Duration(m.draw("late", 60)) * time.Second), do})
}

// step sets the clock, for all who look at it.
func (m *model) step(d time.Duration) {
	m.world.step(d)
	for _, l := range m.late {
		l.at = l.at.Add(d)
	}
}

func (m *model) endOne() {
	ids := slices.SortedFunc(maps.Keys(m.running), task.ID.Compare)
	id, ok := oneOf(m, "running", ids)
	if !ok {
		return
	}
	v := task.Verdict{Outcome: task.Completed}
	switch m.draw("verdict", 4) {
	case 0:
		v = task.Verdict{Outcome: task.Errored, Error: "no", Delay: -1}
	case 1:
		rows := m.children(m.running[id].Task)
		if m.shell.RoomFor(m.now, id, rows, m.draw("take", 4) > 0) != nil {
			v = task.Verdict{Outcome: task.Snoozed, Delay: time.Second}
			break
		}
		v.Rerun = &task.Rerun{Rows: rows}
		if m.draw("again", 2) == 0 {
			v.Again = m.now.Add(time.Second)
		}
	}
	m.end(id, v, []string{"", "note", "finish", "rollback"}[m.draw("how", 4)])
}

// children returns rows that are to follow the end of an attempt of t.
func (m *model) children(t *task.Task) (rows []*task.Task) {
	for i := range m.draw("children", 3) {
		child := &task.Task{ID: t.ID.Child(m.now, fmt.Sprint(t.Version, i)), Type: []string{"plain", "narrow"}[m.draw("child", 2)], Priority: 5}
		child.Shard = child.ID.Shard()
		rows = append(rows, child)
	}
	return rows
}

// advance lets time pass, with a Tick at each time of Wake.
func (m *model) advance(d time.Duration) {
	end := m.now.Add(d)
	for range 100 {
		next := end
		if wake := m.shell.Wake(); !wake.IsZero() && wake.Before(next) {
			next = wake
		}
		if next.After(m.now) {
			m.now = next
		}
		m.late = slices.DeleteFunc(m.late, func(l *lateWork) bool {
			if l.at.After(m.now) {
				return false
			}
			l.do()
			return true
		})
		m.tick()
		if m.now.Equal(end) {
			return
		}
	}
	m.Fatalf("the shell wants to be woken again and again at %v", m.now)
}

// check checks the invariants.
func (m *model) check() {
	if n := len(m.running); n > m.set.Slots {
		m.Fatalf("%d handlers run on %d slots", n, m.set.Slots)
	}
	for id := range m.running {
		if !m.shell.Core().HasSlot(id) {
			m.Fatalf("task %v runs and has no slot", id)
		}
	}
	m.checkLines()
	for _, k := range m.shell.stuck {
		if k.save.Head != nil {
			m.Fatalf("the save of %v is stuck and has a slot", k.save.Ref)
		}
	}
	resting, counted := 0, 0
	for _, k := range m.shell.stuck {
		if !k.tried {
			resting++
		}
	}
	for _, t := range m.shell.stuckTypes {
		counted += t.count
	}
	if resting != m.shell.resting || counted != len(m.shell.stuck) {
		m.Fatalf("%d saves are stuck, %d counted, and %d of them rest, %d counted", len(m.shell.stuck), counted, resting, m.shell.resting)
	}
	if saving, stuck := m.shell.Core().Saving(), m.shell.Stuck(); saving < stuck {
		m.Fatalf("%d saves are under way, and %d are stuck", saving, stuck)
	}
}

// checkLines checks that submissions get room in the order in which they came, as soon as there is room.
func (m *model) checkLines() {
	for _, typ := range []string{"narrow", "strait"} {
		b := m.shell.backlogs[typ]
		waits := false
		for _, sub := range m.waiting {
			if !slices.ContainsFunc(sub.Rows, func(t *task.Task) bool { return t.Type == typ }) {
				continue
			}
			if sub.place == nil && waits {
				m.Fatalf("a submission of type %s got room before one that came earlier", typ)
			}
			waits = waits || sub.place != nil
		}
		waiting, bytes := 0, 0
		for at := b.line.Front(); at != nil; at = at.Next() {
			p := at.Value.(*place)
			bytes += p.bytes
			for _, c := range p.claims {
				if c.backlog == b {
					waiting += c.rows
				}
			}
		}
		if waiting != b.waiting || bytes != b.lineBytes || b.claimed < 0 {
			m.Fatalf("of type %s %d tasks wait with %d bytes, not %d with %d, and %d are claimed", typ, waiting, bytes, b.waiting, b.lineBytes, b.claimed)
		}
		if first := b.line.Front(); first != nil {
			p := first.Value.(*place)
			isFirst := !slices.ContainsFunc(p.claims, func(c claim) bool { return c.line.Front().Value.(*place) != p })
			if isFirst && fullOf(p.claims, false) == nil {
				m.Fatalf("of type %s something waits although there is room", typ)
			}
		}
	}
	m.waiting = slices.DeleteFunc(m.waiting, func(sub *Submission) bool { return sub.place == nil })
}

// calm has all databases work, and checks that everything ends.
func (m *model) calm() {
	clear(m.away)
	clear(m.refused)
	m.step(max(0, beginning.Sub(m.now)))
	for rounds := 0; ; rounds++ {
		if rounds > 5000 {
			m.Fatalf("it does not end: %s", m.left())
		}
		switch {
		case m.workOff():
		case m.isEnded():
			m.settled()
			return
		default:
			all, _ := m.shell.Uncertain()
			pause := time.Second
			if wake := m.shell.Wake(); all+len(m.late) == 0 && wake.After(m.now) {
				pause = wake.Sub(m.now)
			}
			m.advance(pause)
			if m.counts = m.counts || m.shell.IsMiscounted(); m.counts {
				m.recount()
			}
			m.checkLines()
			m.reconcile()
			for n, _ := m.shell.Uncertain(); n > 0; n-- {
				if inVain := n%2 == 0; !m.resolve(inVain, true) {
					m.resolve(!inVain, true)
				}
			}
		}
	}
}

// reconcile finds what the engine finds by reading the store: keys without a head, and tasks that the node owns
// although nothing of them is under way.
func (m *model) reconcile() {
	for _, key := range m.keys() {
		m.shell.Core().LookForHead(key)
	}
	for _, row := range m.sortedRows() {
		_, runs := m.running[row.ID]
		if row.State == task.Processing && !runs && !m.shell.Core().HasSlot(row.ID) && !m.shell.IsUncertain(row.ID) && !m.shell.IsSaving(row.Ref()) {
			if !m.unknown[row.Ref()] {
				m.Fatalf("task %v is owned and nothing of it is under way", row.ID)
			}
			m.shell.Core().Reclaim(m.now, row)
		}
	}
	m.collect()
}

// workOff makes one step towards the end, and reports whether there was one.
func (m *model) workOff() bool {
	if len(m.underWay) > 0 {
		m.answer(m.underWay[0], nil)
		return true
	}
	for id := range m.running {
		m.end(id, task.Verdict{Outcome: task.Completed})
		return true
	}
	for lane := range m.lanes {
		if m.next(lane) != nil {
			return true
		}
	}
	return false
}

func (m *model) isEnded() bool {
	for _, row := range m.rows {
		if row.State.Live() && row.State != task.Error {
			return false
		}
	}
	all, _ := m.shell.Uncertain()
	return all == 0 && len(m.late) == 0 && m.shell.Core().Saving() == 0 && len(m.open) == 0
}

// settled checks the state when all has ended.
func (m *model) settled() {
	c := m.shell.Core()
	if c.Busy() != 0 || c.Saving() != 0 {
		m.Fatalf("%d slots are taken, and %d saves are under way", c.Busy(), c.Saving())
	}
	if len(m.shell.finishes) != 0 || m.shell.stuckBytes != 0 {
		m.Fatalf("%d finishes are left, and %d bytes are stuck", len(m.shell.finishes), m.shell.stuckBytes)
	}
	for end := m.now.Add(placeKept); !m.now.After(end); { // the places of tasks are given up
		m.advance(time.Second)
		for m.workOff() { // tasks that the core took for overdue
		}
	}
	for _, b := range m.shell.pausing {
		if b.line.Len() > 0 || b.claimed != 0 {
			m.Fatalf("of type %s %d places are left, and %d claims", b.name, b.line.Len(), b.claimed)
		}
	}
	m.shell.Close(m.now)
	if !m.shell.IsDrained() {
		m.Fatalf("it is not drained")
	}
}

// left lists the work that has not ended.
func (m *model) left() (text string) {
	for _, row := range m.sortedRows() {
		if row.State.Live() {
			text += fmt.Sprintf("%v %s version %d, next %v, why %+v\n", row.ID, row.State, row.Version, row.NextEventAt, m.shell.Core().Why(m.now, row))
		}
	}
	all, inVain := m.shell.Uncertain()
	return text + fmt.Sprintf("%d uncertain, %d in vain, %d stuck, %d open, now %v, wake %v", all, inVain, m.shell.Stuck(), len(m.open), m.now, m.shell.Wake())
}
