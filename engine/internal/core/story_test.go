//go:build !race

package core

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/internal/scripttest"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// story is the state of one script: a core, and a store that makes the effects of the core when the
// script says so. Tasks are named by numbers, and times by the duration since the beginning.
type story struct {
	core     *Core
	config   Config
	now      time.Time
	rows     map[task.ID]*task.Task
	seq      uint64
	changes  uint64    // of limits by people
	woke     time.Time // the time of Core.Wake that was printed last
	out      strings.Builder
	inserts  []*task.Task              // rows to be inserted, in order
	grabs    map[task.ID]task.Change   // to be answered by grabbed
	held     map[task.ID]*task.Task    // rows that were grabbed, and not yet answered by grabbed
	saves    map[task.ID][]Save        // to be answered by saved, in order
	running  map[task.ID]bool          // to be answered by handled
	loads    map[task.Queue]table.Load // to be answered by loaded
	scans    []table.Scan              // to be answered by scanned
	dueLoads map[task.State]DueLoad    // to be answered by looked
}

// scriptCommands are the commands of a script. NUM is the number of a task.
//
//	world [blind]                starts again with the slots, limits, types and capacity in
//	                             the lines below; the core reads the empty store at once
//	                             unless blind; "grabs heads" is a line for a store that does so
//	submit NUM TYPE [in=1h] [priority=3] [group=a] [key=k] [expires=1h] [tx]
//	                             key is an ordering key; the store gives it its head with each change of a row
//	promote KEY                  the store does that again, after tx
//	inserted NUM [duplicate|again]
//	                             the store has the row of the first such submit, or not; again: it had
//	                             deleted a row of this number before
//	grabbed NUM [failed|lost]    the store has swapped it, or could not, or was too late
//	swapped NUM                  the same, but only grabbed tells the core
//	handled NUM ok|error|permanent|doubt|crash|timeout|busy|interrupted|snooze=D|again=D|in=D
//	finish NUM [again=D]         its handler has finished it itself, in a transaction, or has it run again
//	saved NUM [stale] [alone]    the store has made the first save, or was too late; alone: it has not
//	                             grabbed the head that follows
//	loaded TYPE [group=a] [failed], scanned, looked STATE
//	                             the store has answered, as its rows are now
//	cancel NUM, resume NUM       a user changed the task, and the core hears of it
//	trigger NUM                  a hint that the task is ready, as its row is now
//	advance D                    time passes, with a Tick at each time of Core.Wake
//	sleep D                      the same, but the machine sleeps: one Tick when it wakes
//	pause TYPE, unpause TYPE, drain
//	set LIMIT [max=N] [rate=N each=1s burst=N] [paused]
//	                             a person changes a limit; without more, as it is configured
//	hold NUM...                  the database of these tasks alone does not answer; none: all do
//	unclaim NUM, yield NUM       its slot is taken back: its insert was not given to the store, or
//	                             its grab takes long
//	die                          the node dies and starts again: running tasks are orphaned
//	why NUM, rows, stats         print something
func (s *story) do(command string, words scripttest.Args, lines []string) (out string, err error) {
	s.out.Reset()
	a := args{words}
	if command == "world" {
		if err := s.world(a, lines); err != nil {
			return "", err
		}
	} else if fn, ok := scriptCommands[command]; !ok {
		return "", errors.New("no such command")
	} else if err := fn(s, a); err != nil {
		return "", err
	}
	s.absorb()
	if wants := len(s.grabs) + len(s.running) + s.fused() + s.handingOver() + len(s.core.delayed); s.core.Busy() != wants {
		return "", fmt.Errorf("%d slots are taken, and %d replies will free one", s.core.Busy(), wants)
	}
	return s.out.String(), nil
}

// handingOver returns how many saves have a slot for the next head.
func (s *story) handingOver() int {
	n := 0
	for _, saves := range s.saves {
		for _, save := range saves {
			if save.Head != nil {
				n++
			}
		}
	}
	return n
}

func (s *story) fused() int {
	n := 0
	for _, t := range s.inserts {
		if t.State == task.Processing {
			n++
		}
	}
	return n
}

var scriptCommands = map[string]func(*story, args) error{
	"submit": (*story).submit, "inserted": (*story).inserted, "grabbed": (*story).grabbed, "swapped": (*story).swapped,
	"handled": (*story).handled, "saved": (*story).saved, "loaded": (*story).loaded, "scanned": (*story).scanned,
	"looked": (*story).dueLoaded, "finish": (*story).finish, "cancel": (*story).cancel, "resume": (*story).resume, "trigger": (*story).trigger,
	"advance": (*story).advance, "why": (*story).why, "rows": (*story).list, "stats": (*story).stats, "die": (*story).die,
	"sleep":   (*story).sleep,
	"pause":   func(s *story, a args) error { s.core.Pause(s.now, a.At(0), true); return nil },
	"set":     (*story).set,
	"unpause": func(s *story, a args) error { s.core.Pause(s.now, a.At(0), false); return nil },
	"pool": func(s *story, a args) error {
		s.core.Resize(s.now, a.At(0), a.Number("slots", 0), a.Number("more", 0))
		return nil
	},
	"began": func(s *story, a args) error {
		if row, ok := s.rows[a.id()]; ok {
			s.core.Began(s.now, row.Ref())
		}
		return nil
	},
	"promote": func(s *story, a args) error { s.promote(a.At(0)); return nil },
	"drain":   func(s *story, a args) error { s.core.Drain(s.now); return nil },
	"hold":    (*story).hold, "unclaim": (*story).unclaim,
	"yield": func(s *story, a args) error { s.core.Yield(s.now, a.id()); return nil },
}

func number(id task.ID) int { return int(id[15]) }

var beginning = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func (s *story) world(a args, lines []string) error {
	s.config = Config{
		Owner: task.ID{0xff}, Handled: map[string]bool{}, Pools: map[string]string{}, Capacity: 1000, QueueCapacity: 1000,
		Chance:   func() float64 { return 0.5 }, // in the middle: no jitter
		Policies: policy.Set{Types: map[string]policy.Type{}, Limits: map[string]policy.Limit{}},
	}
	for _, line := range lines {
		words := strings.Fields(line)
		if err := s.declare(words[0], args{scripttest.Args{Words: words[1:]}}); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
	}
	if problems := s.config.Policies.Check(); len(problems) > 0 {
		return fmt.Errorf("%v", problems)
	}
	s.now, s.rows = beginning, map[task.ID]*task.Task{}
	s.start()
	if a.Has("blind") {
		return nil
	}
	s.absorb()
	err := errors.Join(s.scanned(args{}), s.dueLoaded(word("waiting")), s.dueLoaded(word("submitted")))
	s.absorb()
	s.out.Reset()
	return err
}

// start starts a new core.
func (s *story) start() {
	s.core, s.woke = New(s.config), time.Time{}
	s.inserts, s.grabs, s.held, s.saves = nil, map[task.ID]task.Change{}, map[task.ID]*task.Task{}, map[task.ID][]Save{}
	s.running, s.loads, s.scans, s.dueLoads = map[task.ID]bool{}, map[task.Queue]table.Load{}, nil, map[task.State]DueLoad{}
}

// declare applies a line of world.
func (s *story) declare(what string, a args) error {
	switch what {
	case "slots":
		n, err := strconv.Atoi(a.At(0))
		s.config.Policies.Slots = n
		return err
	case "capacity":
		s.config.Capacity, s.config.QueueCapacity = a.Number("all", 1000), a.Number("queue", 1000)
	case "grabs":
		s.config.GrabsHeads = true
	case "limit":
		l := policy.Limit{Name: a.At(0), Max: a.Number("max", 0)}
		l.Of, _ = a.Value("of")
		l.Per, _ = a.Value("per")
		l.Fair = a.Has("fair")
		if n := a.Number("rate", 0); n > 0 {
			l.Rate = policy.Rate{Count: n, Per: a.Duration("each", time.Second), Burst: a.Number("burst", 0)}
		}
		s.config.Policies.Limits[l.Name] = l
	case "type":
		p := policy.DefaultType()
		p.Concurrency, p.Weight, p.Relaxed, p.Paused = a.Number("concurrency", 0), a.Number("weight", 1), a.Has("relaxed"), a.Has("paused")
		p.MaxCrashes = uint32(a.Number("crashes", 5))
		p.Timeout = policy.Timeout{
			Run: a.Duration("run", 0), Grace: a.Duration("grace", 10*time.Second),
			Queue: a.Duration("queue", 0), Total: a.Duration("total", 0),
		}
		p.Retry.Max, p.Retry.Backoff.Initial = a.Number("attempts", 3), a.Duration("backoff", time.Second)
		if a.Has("at_most_once") {
			p.Delivery = policy.AtMostOnce
		}
		if a.Has("gone") {
			p.Retention.Done = 0
		}
		if a.Has("continue") {
			p.Ordering.OnExhausted = policy.Continue
		}
		p.Ordering.Inherit = a.Has("inherit")
		if a.Has("yield") {
			p.Ordering.OnRetry = policy.Yield
		}
		if v, ok := a.Value("limits"); ok {
			p.Limits = strings.Split(v, ",")
		}
		s.config.Policies.Types[a.At(0)] = p
		s.config.Handled[a.At(0)] = !a.Has("unhandled")
		if pool, ok := a.Value("pool"); ok {
			s.config.Pools[a.At(0)] = pool
		}
	default:
		return errors.New("want slots, capacity, limit or type")
	}
	return nil
}

func (s *story) submit(a args) error {
	t := &task.Task{ID: a.id(), Type: a.At(1), Priority: uint8(a.Number("priority", 5))}
	t.Group, _ = a.Value("group")
	t.OrderingKey, _ = a.Value("key")
	t.Inherits = s.config.Policies.Types[t.Type].Ordering.Inherit
	if d := a.Duration("in", 0); d > 0 {
		t.ReadyAt = s.now.Add(d)
	}
	if _, ok := a.Value("expires"); ok {
		t.ExpiresAt = s.now.Add(a.Duration("expires", 0))
	}
	if a.Has("tx") {
		s.core.Rules(t.Type).Create(s.now, t)
	} else {
		s.core.Submit(s.now, t)
	}
	s.inserts = append(s.inserts, t)
	s.printf("insert %s\n", s.row(t))
	return nil
}

func (s *story) inserted(a args) error {
	i := slices.IndexFunc(s.inserts, func(t *task.Task) bool { return t.ID == a.id() })
	if i < 0 {
		return errors.New("it was not submitted")
	}
	t := s.inserts[i]
	s.inserts = slices.Delete(s.inserts, i, i+1)
	if a.Has("again") {
		delete(s.rows, t.ID)
	}
	_, taken := s.rows[t.ID]
	created := !taken && !a.Has("duplicate")
	if created {
		s.seq++
		t.Seq = s.seq
		s.rows[t.ID] = t.Clone()
	}
	h := s.headOf(t.OrderingKey)
	if created {
		t.Turn = s.rows[t.ID].Turn
	}
	s.core.Inserted(s.now, t, created)
	s.promoted(h)
	return nil
}

// swap makes a change in the store and returns the row, or nil if it is too late.
func (s *story) swap(c task.Change) *task.Task {
	if row, ok := s.rows[c.ID]; ok && c.Apply(row) {
		return row.Clone()
	}
	return nil
}

func (s *story) swapped(a args) error {
	c, ok := s.grabs[a.id()]
	if !ok {
		return errors.New("no grab of it is under way")
	}
	s.held[a.id()] = s.swap(c)
	return nil
}

func (s *story) grabbed(a args) error {
	c, ok := s.grabs[a.id()]
	if !ok {
		return errors.New("no grab of it is under way")
	}
	t, held := s.held[c.ID]
	if !held && !a.Has("failed") && !a.Has("lost") {
		t = s.swap(c)
	}
	delete(s.grabs, c.ID)
	delete(s.held, c.ID)
	if t == nil && !a.Has("failed") {
		s.printf("too late\n")
	}
	s.core.Grabbed(s.now, c.Ref, t, a.Has("failed"))
	return nil
}

func (s *story) handled(a args) error {
	if !s.running[a.id()] {
		return errors.New("it does not run")
	}
	delete(s.running, a.id())
	v := task.Verdict{Error: a.At(1), Delay: -1}
	switch word, value, _ := strings.Cut(a.At(1), "="); word {
	case "ok":
		v = task.Verdict{Outcome: task.Completed, Result: []byte("ok")}
	case "again":
		v = task.Verdict{Outcome: task.Completed, Again: s.now.Add(a.Duration("again", 0))}
	case "snooze":
		v = task.Verdict{Outcome: task.Snoozed, Delay: a.Duration("snooze", 0)}
	case "in":
		v.Outcome, v.Delay, v.Error = task.Errored, a.Duration("in", 0), "not for "+value
	case "error":
		v.Outcome = task.Errored
	case "permanent":
		v.Outcome, v.GiveUp = task.Errored, true
	case "doubt":
		v.Outcome, v.InDoubt = task.Errored, true
	case "crash":
		v.Outcome = task.Crashed
	case "timeout":
		v.Outcome = task.TimedOut
	case "busy":
		v.Outcome = task.HandedBack
	case "interrupted":
		v.Outcome = task.Interrupted
	default:
		return errors.New("no such verdict")
	}
	s.core.Handled(s.now, a.id(), v)
	return nil
}

func (s *story) saved(a args) error {
	saves := s.saves[a.id()]
	if len(saves) == 0 {
		return errors.New("no save of it is under way")
	}
	s.saves[a.id()] = saves[1:]
	var t *task.Task
	if !a.Has("stale") {
		t = s.swap(saves[0].Change)
	}
	switch {
	case t == nil:
		s.printf("too late\n")
	case saves[0].Remove:
		delete(s.rows, t.ID)
	}
	var h, grabbed *task.Task
	if t != nil {
		h = s.headOf(t.OrderingKey)
		if row, ok := s.rows[t.ID]; ok {
			t.Turn = row.Turn
		}
	}
	if want := saves[0].Head; want != nil && h != nil && !a.Has("alone") {
		if grab := want.Grab; h.State == task.Submitted && h.Queue() == want.Queue && h.Priority == want.Priority {
			grab.Ref = h.Ref()
			grabbed, h = s.swap(grab), nil
		}
	}
	s.core.Saved(s.now, &saves[0], t)
	if saves[0].Head != nil {
		s.core.GrabbedHead(s.now, saves[0].ID, grabbed)
	}
	s.promoted(h)
	return nil
}

// headOf gives an ordering key its head, and returns it; nil if there is none.
func (s *story) headOf(key string) *task.Task {
	head, first := task.Candidates(maps.Values(s.rows), key)
	demote, promote := task.NextHead(head, first)
	if demote {
		head.Turn, head.Boost = task.Behind, 0
	}
	if promote {
		first.Turn, head = task.Head, first
	}
	if head != nil {
		head.Boost = head.Inherit(task.Lent(maps.Values(s.rows), key))
	}
	return head
}

func (s *story) promote(key string) { s.promoted(s.headOf(key)) }

// promoted tells the core of a head.
func (s *story) promoted(head *task.Task) {
	if head != nil && head.State == task.Submitted {
		s.core.Promoted(s.now, head.Hint())
	}
}
