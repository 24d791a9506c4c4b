//go:build !race

package core

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// sim is a shell and a store as a core sees them: rows in a map, effects that are made late and in any
// order, a store that fails at times, handlers with random verdicts, users that change tasks, and a
// node that dies at times. Time is a number. The same seed gives the same run.
type sim struct {
	t     *testing.T
	rng   *rand.Rand
	set   policy.Set
	now   time.Time
	core  *Core
	rows  map[task.ID]*task.Task
	order []task.ID // of the rows, in the order of their insertion
	seq   uint64
	asked task.ID // the id of the newest request

	todo    []func() // effects under way
	running map[task.ID]*task.Task
	begun   map[task.ID]int // how often a handler was called
	crashed map[task.ID]bool
	stopped map[task.ID]bool
	done    map[task.ID]int
	grabs   map[task.ID]bool // under way, also with an insert
	held    task.Shards      // of a database that does not answer
	limits  limitsOfSim
}

func TestRandomLivesOfACore(t *testing.T) {
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { live(t, seed) })
	}
}

func live(t *testing.T, seed uint64) {
	s := &sim{
		t: t, rng: rand.New(rand.NewPCG(seed, 3)), now: time.Unix(1_700_000_000, 0).UTC(),
		rows: map[task.ID]*task.Task{}, begun: map[task.ID]int{}, crashed: map[task.ID]bool{}, done: map[task.ID]int{},
	}
	s.set = simPolicies(s.rng)
	s.start()
	for range 400 {
		switch op := s.rng.IntN(20); {
		case op < 5:
			s.submit()
		case op < 14:
			s.step()
		case op < 16:
			s.advance(time.Duration(s.rng.IntN(int(3 * time.Second))))
		case op < 17:
			s.meddle()
		case op < 18:
			s.change()
		case op < 19:
			s.hold()
		case s.rng.IntN(40) == 0:
			s.die()
		}
		s.check()
	}
	s.changeTo(limitsOfSim{few: s.set.Limits["few"].Max})
	s.held = task.Shards{}
	s.core.Hold(s.now, s.held)
	s.absorb()
	s.finish()
}

func simPolicies(rng *rand.Rand) policy.Set {
	typ := func(set func(*policy.Type)) policy.Type {
		p := policy.DefaultType()
		p.Retry = policy.Retry{Max: 4, Backoff: policy.Backoff{Kind: policy.Exponential, Initial: time.Second, Factor: 2}}
		p.Timeout = policy.Timeout{Run: 5 * time.Second, Grace: time.Second}
		p.MaxCrashes = 0
		p.Ageing = time.Duration(rng.IntN(3)) * time.Second
		set(&p)
		return p
	}
	return policy.Set{
		Slots: 1 + rng.IntN(6),
		Limits: map[string]policy.Limit{
			"few":   {Name: "few", Max: 1 + rng.IntN(3)},
			"pace":  {Name: "pace", Rate: policy.Rate{Count: 1 + rng.IntN(20), Per: time.Second, Burst: 1 + rng.IntN(3)}},
			"march": {Name: "march", Rate: policy.Rate{Count: 1 + rng.IntN(20), Per: time.Second, Burst: 1 + rng.IntN(3)}},
		},
		Types: map[string]policy.Type{
			"plain":   typ(func(*policy.Type) {}),
			"limited": typ(func(p *policy.Type) { p.Limits = []string{"few"} }),
			"once":    typ(func(p *policy.Type) { p.Delivery = policy.AtMostOnce; p.Limits = []string{"few"} }),
			"relaxed": typ(func(p *policy.Type) { p.Relaxed = true }),
			"hasty":   typ(func(p *policy.Type) { p.Timeout.Queue = 4 * time.Second; p.Timeout.Total = 20 * time.Second }),
			"fragile": typ(func(p *policy.Type) { p.MaxCrashes = 2 }),
			"paced":   typ(func(p *policy.Type) { p.Limits = []string{"pace"} }),
			"crossed": typ(func(p *policy.Type) { p.Limits = []string{"few", "pace", "march"} }),
		},
	}
}

var simTypes = []string{"plain", "limited", "once", "relaxed", "hasty", "fragile", "paced", "crossed"}

func (s *sim) start() {
	handled := map[string]bool{}
	for _, name := range simTypes {
		handled[name] = true
	}
	s.core = New(Config{
		Owner: s.id(), Policies: s.set, Handled: handled, Capacity: 8 + s.rng.IntN(60), QueueCapacity: 2 + s.rng.IntN(20),
		Chance: s.rng.Float64,
	})
	s.core.moves = s.rng.IntN(4) // with few, others that are due wait for their move
	s.running, s.stopped, s.todo, s.grabs = map[task.ID]*task.Task{}, map[task.ID]bool{}, nil, map[task.ID]bool{}
	s.held = task.Shards{}
	s.limits.begins = nil // a rate of a node begins anew with its node
	s.changeTo(limitsOfSim{few: s.set.Limits["few"].Max})
}

// hold has half of the tasks held, or none, or yields the slots of tasks that are being grabbed.
func (s *sim) hold() {
	switch s.rng.IntN(3) {
	case 0:
		s.held = task.Shards{}
		for shard := range uint16(task.ShardCount) {
			if s.rng.IntN(2) == 0 {
				s.held.Add(shard)
			}
		}
		s.core.Hold(s.now, s.held)
	case 1:
		s.held = task.Shards{}
		s.core.Hold(s.now, s.held)
	case 2:
		for _, id := range slices.SortedFunc(maps.Keys(s.grabs), task.ID.Compare) {
			if s.held.Has(id.Shard()) {
				s.core.Yield(s.now, id)
			}
		}
	}
	s.absorb()
}

// grabbed marks a task that is being grabbed.
func (s *sim) grabbed(id task.ID) {
	if s.held.Has(id.Shard()) {
		s.t.Fatalf("task %v is grabbed while it is held", id)
	}
	s.grabs[id] = true
}

func (s *sim) id() task.ID {
	var id task.ID
	for i := range id {
		id[i] = byte(s.rng.Uint32())
	}
	return id
}

// later queues an effect. Effects are made in any order.
func (s *sim) later(fn func()) { s.todo = append(s.todo, fn) }

func (s *sim) submit() {
	t := &task.Task{ID: s.idOfRequest(), Type: simTypes[s.rng.IntN(len(simTypes))], Priority: uint8(s.rng.IntN(3))}
	if s.rng.IntN(4) == 0 {
		t.ReadyAt = s.now.Add(time.Duration(s.rng.IntN(int(10 * time.Second))))
	}
	if s.rng.IntN(5) > 0 {
		s.core.Submit(s.now, t)
		if t.State == task.Processing {
			s.grabbed(t.ID)
		}
	} else { // in a transaction of the caller
		s.core.Rules(t.Type).Create(s.now, t)
	}
	s.later(func() {
		_, taken := s.rows[t.ID]
		created := !taken && s.rng.IntN(20) > 0
		if created {
			s.seq++
			t.Seq = s.seq
			s.rows[t.ID] = t.Clone()
			s.order = append(s.order, t.ID)
		}
		s.tell(func() {
			if t.State == task.Processing {
				delete(s.grabs, t.ID)
			}
			s.core.Inserted(s.now, t, created)
		})
	})
	s.absorb()
}

// idOfRequest returns a new id or, like a caller that repeats a request, the one before.
func (s *sim) idOfRequest() task.ID {
	if s.rng.IntN(8) > 0 || s.asked.IsZero() {
		s.asked = s.id()
	}
	return s.asked
}

// tell replies to the core, now or later: of two commits the core may learn of the second first.
func (s *sim) tell(fn func()) {
	if s.rng.IntN(4) == 0 {
		s.later(fn)
		return
	}
	fn()
}

func (s *sim) swap(c task.Change) *task.Task {
	row, ok := s.rows[c.ID]
	if !ok || !c.Apply(row) {
		return nil
	}
	if row.State == task.Done {
		s.done[row.ID]++
	}
	return row.Clone()
}

// absorb queues the effects of the core.
func (s *sim) absorb() {
	var r Ready
	s.core.Take(&r)
	for _, c := range append(slices.Clone(r.Grabs), r.Relaxed...) {
		s.grabbed(c.ID)
		s.later(func() {
			if s.rng.IntN(20) == 0 {
				delete(s.grabs, c.ID)
				s.core.Grabbed(s.now, c.Ref, nil, true)
				return
			}
			row := s.swap(c)
			s.tell(func() {
				delete(s.grabs, c.ID)
				s.core.Grabbed(s.now, c.Ref, row, false)
			})
		})
	}
	for _, sv := range slices.Clone(r.Saves) {
		s.later(func() {
			row := s.swap(sv.Change)
			if row == nil {
				s.tell(func() { s.core.Saved(s.now, &sv, nil) })
				return
			}
			for _, t := range sv.Follow {
				s.seq++
				t.Seq = s.seq
				s.rows[t.ID] = t.Clone()
				s.order = append(s.order, t.ID)
			}
			s.tell(func() {
				s.core.Saved(s.now, &sv, row)
				for _, t := range sv.Follow {
					s.core.Inserted(s.now, t, true)
				}
			})
		})
	}
	for _, run := range slices.Clone(r.Runs) {
		s.run(run)
	}
	for _, st := range r.Stops {
		s.stopped[st.ID] = true
	}
	for _, l := range slices.Clone(r.Loads) {
		page, end := s.load(l)
		s.later(func() { s.core.Loaded(s.now, l.Queue, page, end) })
	}
	for _, sc := range slices.Clone(r.Scans) {
		queues, end := s.scan(sc)
		s.later(func() { s.core.Scanned(queues, end) })
	}
	for _, l := range slices.Clone(r.DueLoads) {
		page, end := s.loadDue(l)
		s.later(func() { s.core.DueLoaded(s.now, l, page, end) })
	}
}

func (s *sim) run(r Run) {
	if s.running[r.ID] != nil {
		s.t.Fatalf("task %v is run twice at once", r.ID)
	}
	if s.crashed[r.ID] && r.Type == "once" {
		s.t.Fatalf("task %v may have taken effect and is run again", r.ID)
	}
	if row := s.rows[r.ID]; row.Version != r.Task.Version {
		s.t.Fatalf("task %v is run at version %d, and is at version %d and %v", r.ID, r.Task.Version, row.Version, row.State)
	}
	s.running[r.ID] = r.Task
	s.begun[r.ID]++
	s.checkBegin(r.Type)
	if s.rng.IntN(10) == 0 {
		s.later(func() { s.finishTx(r.Task.Ref()) })
	}
	s.later(func() {
		delete(s.running, r.ID)
		delete(s.stopped, r.ID)
		s.core.Handled(s.now, r.ID, s.verdict())
	})
}

// finishTx has a handler finish its task in a transaction, or has it run again. The core may not learn
// that it is done. The handler may have returned before.
func (s *sim) finishTx(ref task.Ref) {
	if s.rng.IntN(2) == 0 {
		again := task.Verdict{Outcome: task.Completed, Result: []byte("ok"), Again: s.now.Add(time.Duration(s.rng.IntN(3)) * time.Second)}
		if change, ok := s.core.Concluded(s.now, ref, again); ok {
			if row := s.swap(change); row != nil {
				s.core.Finished(s.now, ref, row)
			}
		}
		return
	}
	if row := s.swap(task.Change{Ref: ref, At: s.now, To: task.Done, Result: []byte("ok")}); row != nil && s.rng.IntN(3) > 0 {
		s.core.Finished(s.now, ref, row)
	}
}

func (s *sim) verdict() task.Verdict {
	switch s.rng.IntN(12) {
	case 0:
		return task.Verdict{Outcome: task.Errored, Error: "no", Delay: -1}
	case 1:
		return task.Verdict{Outcome: task.Errored, Error: "no", GiveUp: true, Delay: -1}
	case 2:
		return task.Verdict{Outcome: task.Snoozed, Delay: time.Second}
	case 3:
		return task.Verdict{Outcome: task.Crashed, Error: "died", Delay: -1}
	case 4:
		return task.Verdict{Outcome: task.TimedOut, Error: "slow", Delay: -1}
	case 5:
		return task.Verdict{Outcome: task.HandedBack, Error: "busy", Delay: -1}
	case 6:
		return task.Verdict{Outcome: task.Errored, Error: "soon", Delay: 0}
	}
	v := task.Verdict{Outcome: task.Completed, Result: []byte("ok")}
	if s.rng.IntN(8) == 0 {
		v.Rerun = &task.Rerun{Rows: []*task.Task{{ID: s.id(), Type: "plain"}, {ID: s.id(), Type: "hasty", ReadyAt: s.now.Add(time.Second)}}}
		if s.rng.IntN(2) == 0 {
			v.Again = s.now.Add(2 * time.Second)
		}
	}
	return v
}

// step makes one effect.
func (s *sim) step() {
	if len(s.todo) == 0 {
		return
	}
	i := s.rng.IntN(len(s.todo))
	fn := s.todo[i]
	s.todo = slices.Delete(s.todo, i, i+1)
	fn()
	s.absorb()
}

func (s *sim) advance(d time.Duration) {
	s.now = s.now.Add(d)
	if wake := s.core.Wake(); !wake.IsZero() && !s.now.Before(wake) {
		s.core.Tick(s.now)
	}
	s.absorb()
}

// meddle changes a task as a user does.
func (s *sim) meddle() {
	if len(s.order) == 0 {
		return
	}
	row := s.rows[s.order[s.rng.IntN(len(s.order))]]
	c := task.Change{Ref: row.Ref(), At: s.now, Outcome: task.Overruled, To: task.Cancelled}
	if s.rng.IntN(2) == 0 {
		c.To, c.Count = task.Submitted, task.Reset
	}
	if row.State == task.Processing && c.To == task.Submitted || s.crashed[row.ID] {
		return
	}
	if t := s.swap(c); t != nil {
		s.core.Changed(s.now, t)
		s.absorb()
	}
}

// die kills the node and starts another on the same rows.
func (s *sim) die() {
	old := s.core.config.Owner
	for _, row := range s.rows {
		if row.State != task.Processing {
			continue
		}
		s.crashed[row.ID] = true
		if row.Owner != old {
			s.t.Fatalf("task %v runs under an owner long gone", row.ID)
		}
		s.swap(s.set.Types[row.Type].Rules().Orphaned(s.now, row))
	}
	s.start()
}

// finish runs until all tasks have ended, and checks the results.
func (s *sim) finish() {
	live := func() int {
		n := 0
		for _, row := range s.rows {
			if row.State.Live() {
				n++
			}
		}
		return n
	}
	for i := 0; live() > 0 || len(s.todo) > 0; i++ {
		if i > 100_000 {
			s.t.Fatalf("%d tasks never end: busy %d, waiting %d, wake %v, now %v", live(), s.core.Busy(), s.core.Waiting(), s.core.Wake(), s.now)
		}
		if len(s.todo) > 0 {
			s.step()
		} else {
			wake := s.core.Wake()
			if wake.IsZero() {
				for _, id := range s.order {
					if row := s.rows[id]; row.State.Live() {
						s.t.Errorf("stuck: %v %s %s version %d, next %v, why %+v", id, row.Type, row.State, row.Version, row.NextEventAt, s.core.Why(s.now, row))
					}
				}
				s.t.Fatalf("%d tasks are live and nothing will wake them", live())
			}
			s.advance(max(0, wake.Sub(s.now)))
		}
		s.check()
	}
	if s.core.Busy() > 0 || s.core.Saving() > 0 {
		s.t.Errorf("%d slots were never freed, or saves never counted as done", s.core.Busy())
	}
	for id, n := range s.done {
		if n > 1 {
			s.t.Errorf("task %v was done %d times", id, n)
		}
		if row := s.rows[id]; row.State == task.Done && !bytes.Equal(row.Result, []byte("ok")) {
			s.t.Errorf("task %v is done with result %q", id, row.Result)
		}
	}
}
