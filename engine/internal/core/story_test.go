package core

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/engine/policy"
	"github.com/taskengine/taskengine/engine/task"
)

// story is the state of one script: a core, and a store that makes the effects of the core when the
// script says so. Tasks are named by numbers, and times by the duration since the beginning.
type story struct {
	core     *Core
	config   Config
	now      time.Time
	rows     map[task.ID]*task.Task
	seq      uint64
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
//	                             unless blind
//	submit NUM TYPE [in=1h] [priority=3] [group=a] [expires=1h] [tx]
//	inserted NUM [duplicate]     the store has the row of the first such submit, or not
//	grabbed NUM [failed|lost]    the store has swapped it, or could not, or was too late
//	swapped NUM                  the same, but only grabbed tells the core
//	handled NUM ok|error|permanent|doubt|crash|timeout|busy|interrupted|snooze=D|again=D|in=D
//	finish NUM                   its handler has finished it itself, in a transaction
//	saved NUM [stale]            the store has made the first save, or was too late
//	loaded TYPE [group=a] [failed], scanned, looked STATE
//	                             the store has answered, as its rows are now
//	cancel NUM, resume NUM       a user changed the task, and the core is told
//	trigger NUM                  a hint that the task is ready, as its row is now
//	advance D                    time passes, with a Tick at each time of Core.Wake
//	sleep D                      the same, but the machine sleeps: one Tick when it wakes
//	pause TYPE, unpause TYPE, drain
//	die                          the node dies and starts again: running tasks are orphaned
//	why NUM, rows, stats         print something
func (s *story) do(command []string) (out string, err error) {
	defer func() {
		if r := recover(); r != nil { // of the core, or of args
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	s.out.Reset()
	words := strings.Fields(command[0])
	a := args{words: words[1:]}
	if words[0] == "world" {
		if err := s.world(a, command[1:]); err != nil {
			return "", err
		}
	} else if fn, ok := scriptCommands[words[0]]; !ok {
		return "", errors.New("no such command")
	} else if err := fn(s, a); err != nil {
		return "", err
	}
	s.absorb()
	if wants := len(s.grabs) + len(s.running) + s.fused(); s.core.Busy() != wants {
		return "", fmt.Errorf("%d slots are taken, and %d replies will free one", s.core.Busy(), wants)
	}
	if s.out.Len() == 0 {
		return "nothing\n", nil
	}
	return s.out.String(), nil
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
	"pause":   func(s *story, a args) error { s.core.Pause(s.now, a.at(0), true); return nil },
	"unpause": func(s *story, a args) error { s.core.Pause(s.now, a.at(0), false); return nil },
	"pool": func(s *story, a args) error {
		s.core.Resize(s.now, a.at(0), a.number("slots", 0), a.number("more", 0))
		return nil
	},
	"began": func(s *story, a args) error { s.core.Began(s.now, a.id()); return nil },
	"drain": func(s *story, a args) error { s.core.Drain(); return nil },
}

// args are the words of a command: plain ones, and some with a value.
type args struct{ words []string }

func (a args) at(i int) string {
	if i < len(a.words) {
		return a.words[i]
	}
	return ""
}

func (a args) has(word string) bool { return slices.Contains(a.words, word) }

func (a args) value(key string) (string, bool) {
	for _, w := range a.words {
		if v, ok := strings.CutPrefix(w, key+"="); ok {
			return v, true
		}
	}
	return "", false
}

// duration and number panic if the value is invalid; do reports where.
func (a args) duration(key string, otherwise time.Duration) time.Duration {
	v, ok := a.value(key)
	if !ok {
		return otherwise
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		panic(err)
	}
	return d
}

func (a args) number(key string, otherwise int) int {
	v, ok := a.value(key)
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		panic(err)
	}
	return n
}

// id returns the id of the task whose number is the first word.
func (a args) id() task.ID {
	n, err := strconv.Atoi(a.at(0))
	if err != nil || n < 1 || n > 255 {
		panic(fmt.Sprintf("%q is not the number of a task", a.at(0)))
	}
	return task.ID{15: byte(n)}
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
		if err := s.declare(words[0], args{words[1:]}); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
	}
	if problems := s.config.Policies.Check(); len(problems) > 0 {
		return fmt.Errorf("%v", problems)
	}
	s.now, s.rows = beginning, map[task.ID]*task.Task{}
	s.start()
	if a.has("blind") {
		return nil
	}
	s.absorb()
	err := errors.Join(s.scanned(args{}), s.dueLoaded(args{[]string{"waiting"}}), s.dueLoaded(args{[]string{"submitted"}}))
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
		n, err := strconv.Atoi(a.at(0))
		s.config.Policies.Slots = n
		return err
	case "capacity":
		s.config.Capacity, s.config.QueueCapacity = a.number("all", 1000), a.number("queue", 1000)
	case "limit":
		l := policy.Limit{Name: a.at(0), Max: a.number("max", 0)}
		l.Of, _ = a.value("of")
		l.Per, _ = a.value("per")
		if n := a.number("rate", 0); n > 0 {
			l.Rate = policy.Rate{Count: n, Per: a.duration("each", time.Second), Burst: a.number("burst", 0)}
		}
		s.config.Policies.Limits[l.Name] = l
	case "type":
		p := policy.DefaultType()
		p.Concurrency, p.Weight, p.Relaxed, p.Paused = a.number("concurrency", 0), a.number("weight", 1), a.has("relaxed"), a.has("paused")
		p.MaxCrashes = uint32(a.number("crashes", 5))
		p.Timeout = policy.Timeout{
			Run: a.duration("run", 0), Grace: a.duration("grace", 10*time.Second),
			Queue: a.duration("queue", 0), Total: a.duration("total", 0),
		}
		p.Retry.Max, p.Retry.Backoff.Initial = a.number("attempts", 3), a.duration("backoff", time.Second)
		if a.has("at_most_once") {
			p.Delivery = policy.AtMostOnce
		}
		if a.has("gone") {
			p.Retention.Done = 0
		}
		if v, ok := a.value("limits"); ok {
			p.Limits = strings.Split(v, ",")
		}
		s.config.Policies.Types[a.at(0)] = p
		s.config.Handled[a.at(0)] = !a.has("unhandled")
		if pool, ok := a.value("pool"); ok {
			s.config.Pools[a.at(0)] = pool
		}
	default:
		return errors.New("want slots, capacity, limit or type")
	}
	return nil
}

func (s *story) submit(a args) error {
	t := &task.Task{ID: a.id(), Type: a.at(1), Priority: uint8(a.number("priority", 5))}
	t.Group, _ = a.value("group")
	if d := a.duration("in", 0); d > 0 {
		t.ReadyAt = s.now.Add(d)
	}
	if _, ok := a.value("expires"); ok {
		t.ExpiresAt = s.now.Add(a.duration("expires", 0))
	}
	if a.has("tx") {
		Create(s.now, s.core.Policy(t.Type), t)
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
	_, taken := s.rows[t.ID]
	created := !taken && !a.has("duplicate")
	if created {
		s.seq++
		t.Seq = s.seq
		s.rows[t.ID] = t.Clone()
	}
	s.core.Inserted(s.now, t, created)
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
	if !held && !a.has("failed") && !a.has("lost") {
		t = s.swap(c)
	}
	delete(s.grabs, c.ID)
	delete(s.held, c.ID)
	if t == nil && !a.has("failed") {
		s.printf("too late\n")
	}
	s.core.Grabbed(s.now, c.Ref, t, a.has("failed"))
	return nil
}

func (s *story) handled(a args) error {
	if !s.running[a.id()] {
		return errors.New("it does not run")
	}
	delete(s.running, a.id())
	v := task.Verdict{Error: a.at(1), Delay: -1}
	switch word, value, _ := strings.Cut(a.at(1), "="); word {
	case "ok":
		v = task.Verdict{Outcome: task.Completed, Result: []byte("ok")}
	case "again":
		v = task.Verdict{Outcome: task.Completed, Again: s.now.Add(a.duration("again", 0))}
	case "snooze":
		v = task.Verdict{Outcome: task.Snoozed, Delay: a.duration("snooze", 0)}
	case "in":
		v.Outcome, v.Delay, v.Error = task.Errored, a.duration("in", 0), "not for "+value
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
	if !a.has("stale") {
		t = s.swap(saves[0].Change)
	}
	switch {
	case t == nil:
		s.printf("too late\n")
	case saves[0].Remove:
		delete(s.rows, t.ID)
	}
	s.core.Saved(s.now, saves[0], t)
	return nil
}
