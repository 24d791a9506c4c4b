package shell

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/scripttest"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// TestScripts plays the stories in testdata. scriptCommands has their commands.
func TestScripts(t *testing.T) {
	scripttest.PlayAll(t, func() scripttest.Machine { return new(story).do })
}

// story is the state of one script: a world in which the script says what happens. Tasks are named
// by numbers, and batches by their numbers among the unanswered ones. The task n is of the
// database n modulo the number of databases.
type story struct {
	*world
	types   map[string]policy.Type
	broken  string // the first promise that the shell broke
	hadWork []bool // by lane, as last printed
	stopped bool   // it was printed that all is drained
	late    []func()
	out     strings.Builder
}

// scriptCommands are the commands of a script. NUM is the number of a task, and N that of a batch.
//
//	world [lanes=2] [nosync]     starts again with the slots and types in the lines below
//	submit NUM TYPE [with NUM [TYPE]] [waits] [for NUM]
//	                             a caller adds one task, or two at once, and waits for room; or the
//	                             handler of a task does
//	withdraw NUM                 the caller waits no longer
//	room NUM TYPE for NUM [take] a task is to be added with the end of another
//	recount                      the backlogs are counted
//	tx NUM TYPE [lost|never]     a caller adds it in a transaction, and the answer to its commit is
//	                             lost, or it does not commit
//	ended NUM ok|error [note] [finish|rollback]
//	                             the handler returns; it has reported a progress; or it has finished
//	                             the task in a transaction with a lost answer
//	cancel NUM, resume NUM       a person changes the task
//	next [LANE]                  a writer takes the next batch
//	written N                    the database has made it, and said so
//	done N                       the database has made it
//	failed N away|lost|refused|broken [undone|late]
//	                             the database did not make it, or did not say so, or will make it
//	late                         it makes such a batch now
//	observe NUM                  another reader tells the core when the time of the row comes
//	move NUM LANE                another database keeps the task from now on
//	advance D                    time passes, with a Tick at each time of Wake
//	step D                       the clock is set
//	resolve, unread              the row of the next uncertain task was read, or could not be
//	probe, retry, close
//	rows, state                  print something
var scriptCommands = map[string]func(*story, scripttest.Args) error{
	"submit": (*story).submits, "tx": (*story).tx, "ended": (*story).ended, "next": (*story).gives, "written": (*story).written,
	"done": (*story).isMade, "failed": (*story).failed, "advance": (*story).advance, "rows": (*story).list, "state": (*story).state,
	"cancel":  func(s *story, a scripttest.Args) error { return s.changes(a, task.Cancelled) },
	"resume":  func(s *story, a scripttest.Args) error { return s.changes(a, task.Submitted) },
	"resolve": func(s *story, a scripttest.Args) error { return s.reads(true) },
	"unread":  func(s *story, a scripttest.Args) error { return s.reads(false) },
	"move": func(s *story, a scripttest.Args) error {
		s.keeps[a.Numbered(0)] = a.Numbered(1)
		return nil
	},
	"step": func(s *story, a scripttest.Args) error { d, err := time.ParseDuration(a.At(0)); s.step(d); return err },
	"late": func(s *story, _ scripttest.Args) error {
		for _, do := range s.late {
			do()
		}
		s.late = nil
		return nil
	},
	"observe": func(s *story, a scripttest.Args) error {
		s.shell.Core().ObserveDue(s.rows[id(a.Numbered(0))].Hint())
		return nil
	},
	"withdraw": (*story).withdraws, "room": (*story).room,
	"recount": func(s *story, _ scripttest.Args) error { s.recount(); return nil },
	"probe":   func(s *story, _ scripttest.Args) error { s.shell.Probe(); return nil },
	"retry":   func(s *story, _ scripttest.Args) error { s.shell.Retry(s.now); return nil },
	"close":   func(s *story, _ scripttest.Args) error { s.shell.Close(s.now); return nil },
}

func (s *story) do(command string, a scripttest.Args, lines []string) (string, error) {
	s.out.Reset()
	if command == "world" {
		if err := s.start(a, lines); err != nil {
			return "", err
		}
	} else if fn, ok := scriptCommands[command]; !ok {
		return "", errors.New("no such command")
	} else if err := fn(s, a); err != nil {
		return "", err
	}
	s.collect()
	s.narrate()
	if s.broken != "" {
		return "", errors.New(s.broken)
	}
	return s.out.String(), nil
}

func (s *story) start(a scripttest.Args, lines []string) error {
	set := policy.Set{Types: map[string]policy.Type{}}
	for _, line := range lines {
		words := scripttest.Args{Words: strings.Fields(line)}
		switch words.At(0) {
		case "slots":
			set.Slots = words.Numbered(1)
		case "type":
			p := policy.DefaultType()
			p.Retry = policy.Retry{Max: 3, Backoff: policy.Backoff{Kind: policy.Fixed, Initial: time.Second}}
			if most := words.Number("max", 0); most > 0 {
				p.MaxBacklog = policy.Backlog{Max: most}
				for _, w := range []policy.WhenFull{policy.DropOldest, policy.PauseSource} {
					if words.Has(w.String()) {
						p.MaxBacklog.WhenFull = w
					}
				}
			}
			p.Relaxed, p.Timeout.Queue = words.Has("relaxed"), words.Duration("queue", 0)
			set.Types[words.At(1)] = p
		default:
			return errors.New("want slots or type")
		}
	}
	s.types = set.Types
	s.world = newWorld(a.Number("lanes", 1), a.Has("nosync"), set, s.breaks)
	s.hadWork, s.stopped = make([]bool, s.lanes), false
	s.collect()
	return nil
}

func (s *story) breaks(format string, args ...any) {
	if s.broken == "" {
		s.broken = fmt.Sprintf(format, args...)
	}
}

func (s *story) printf(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

func id(n int) task.ID { return task.ID{15: byte(n)} }

func number(id task.ID) int { return int(id[15]) }

func (s *story) submits(a scripttest.Args) error {
	sub := &Submission{Rows: []*task.Task{s.row(a.Numbered(0), a.At(1))}, Waits: a.Has("waits")}
	for i, word := range a.Words {
		switch word {
		case "with":
			typ := a.At(i + 2)
			if _, ok := s.types[typ]; !ok {
				typ = a.At(1)
			}
			sub.Rows = append(sub.Rows, s.row(a.Numbered(i+1), typ))
		case "for":
			sub.For = id(a.Numbered(i + 1))
		}
	}
	s.send(sub)
	if sub.place != nil {
		s.printf("it waits")
	}
	return nil
}

func (s *story) withdraws(a scripttest.Args) error {
	for sub := range s.open {
		if sub, ok := sub.(*Submission); ok && sub.Rows[0].ID == id(a.Numbered(0)) && s.withdraw(sub) {
			return nil
		}
	}
	return errors.New("it does not wait")
}

func (s *story) room(a scripttest.Args) error {
	full := s.shell.RoomFor(s.now, id(a.Numbered(3)), []*task.Task{s.row(a.Numbered(0), a.At(1))}, a.Has("take"))
	switch {
	case full == nil:
		s.printf("there is room")
	case full.IsKept:
		s.printf("%v; a place is kept", full)
	default:
		s.printf("%v", full)
	}
	return nil
}

func (s *story) row(n int, typ string) *task.Task {
	return &task.Task{ID: id(n), Type: typ, Priority: 5, Shard: id(n).Shard()}
}

func (s *story) tx(a scripttest.Args) error {
	t := s.row(a.Numbered(0), a.At(1))
	createdAs(s.world, t)
	s.shell.InsertUncertain(s.now, []*task.Task{t})
	if a.Has("never") {
		return nil
	}
	s.insert(t)
	if !a.Has("lost") {
		s.shell.Inserted(s.now, t, storage.Inserted{})
	}
	return nil
}

func (s *story) ended(a scripttest.Args) error {
	n := id(a.Numbered(0))
	if _, ok := s.running[n]; !ok {
		return errors.New("it does not run")
	}
	v := task.Verdict{Outcome: task.Completed, Result: []byte("ok")}
	if a.At(1) == "error" {
		v = task.Verdict{Outcome: task.Errored, Error: "no", Delay: -1}
	}
	s.end(n, v, a.Words...)
	return nil
}

func (s *story) changes(a scripttest.Args, to task.State) error {
	row, ok := s.rows[id(a.Numbered(0))]
	if !ok {
		return errors.New("there is no such row")
	}
	s.edit(row, to)
	return nil
}

func (s *story) gives(a scripttest.Args) error {
	lane := 0
	if a.At(0) != "" {
		lane = a.Numbered(0)
	}
	c := s.next(lane)
	if c == nil {
		return nil
	}
	var items []string
	for _, t := range c.Do.Insert {
		items = append(items, fmt.Sprintf("insert %d %s", number(t.ID), t.State))
	}
	for i := range c.Do.Swap {
		items = append(items, fmt.Sprintf("change %d to %s", number(c.Do.Swap[i].ID), c.Do.Swap[i].To))
	}
	switch {
	case len(c.Do.Notes) > 0:
		items = append(items, fmt.Sprintf("%d notes", len(c.Do.Notes)))
	case c.NoSync:
		items = append(items, "without a sync")
	case items == nil:
		items = append(items, "nothing")
	}
	s.printf("batch %d: %s", c.number, strings.Join(items, ", "))
	return nil
}

func (s *story) commit(a scripttest.Args) (*commit, error) {
	i := slices.IndexFunc(s.underWay, func(c *commit) bool { return c.number == a.Numbered(0) })
	if i < 0 {
		return nil, errors.New("no such batch is under way")
	}
	return s.underWay[i], nil
}

func (s *story) written(a scripttest.Args) error {
	c, err := s.commit(a)
	if err == nil {
		s.answer(c, nil)
	}
	return err
}

func (s *story) isMade(a scripttest.Args) error {
	c, err := s.commit(a)
	if err == nil {
		s.world.do(c)
	}
	return err
}

func (s *story) failed(a scripttest.Args) error {
	c, err := s.commit(a)
	if err != nil {
		return err
	}
	why, ok := map[string]error{
		"away": errAway, "lost": errLost, "refused": errRefused, "broken": fmt.Errorf("the disk is gone: %w", storage.ErrBroken),
	}[a.At(1)]
	if !ok {
		return errors.New("no such failure")
	}
	if a.Has("undone") {
		why = storage.Undone(why)
	}
	if a.Has("late") {
		s.late = append(s.late, s.later(c))
	}
	s.answer(c, why)
	return nil
}

// maxTicks is how many times Wake may return the same time.
const maxTicks = 3

func (s *story) advance(a scripttest.Args) error {
	d, err := time.ParseDuration(a.At(0))
	ticks := 0
	for end := s.now.Add(d); err == nil; {
		wake := s.shell.Wake()
		if wake.IsZero() || wake.After(end) {
			s.now = end
			break
		}
		if ticks++; wake.After(s.now) {
			s.now, ticks = wake, 1
		}
		if ticks > maxTicks {
			return fmt.Errorf("the shell wants to be woken again and again at %v", s.now.Sub(beginning))
		}
		before := s.out.Len()
		s.printf("at %v:", s.now.Sub(beginning))
		began := s.out.Len()
		s.tick()
		if s.narrate(); s.out.Len() == began {
			text := s.out.String()[:before]
			s.out.Reset()
			s.out.WriteString(text)
		}
	}
	return err
}

func (s *story) reads(canRead bool) error {
	n := s.shell.NextUncertain(false)
	if n.IsZero() {
		n = s.shell.NextUncertain(true)
	}
	if n.IsZero() {
		return errors.New("no task is uncertain")
	}
	s.printf("task %d:", number(n))
	if !s.resolve(false, canRead) {
		s.resolve(true, canRead)
	}
	if s.shell.IsUncertain(n) {
		s.printf("it remains uncertain")
	}
	return nil
}

func (s *story) list(scripttest.Args) error {
	for _, n := range slices.SortedFunc(maps.Keys(s.rows), task.ID.Compare) {
		row := s.rows[n]
		text := fmt.Sprintf("%d: %s, version %d", number(n), row.State, row.Version)
		if row.LastError != "" {
			text += ": " + row.LastError
		}
		s.printf("%s", text)
	}
	return nil
}

func (s *story) state(scripttest.Args) error {
	all, inVain := s.shell.Uncertain()
	c := s.shell.Core()
	for _, b := range s.shell.pausing {
		s.printf("type %s: %d tasks and %d claimed, of %d, and %d wait in %d places", b.name, b.stored, b.claimed, b.Max, b.waiting, b.line.Len())
	}
	s.printf("%d have slots or are grabbed, %d saves not written, %d stuck, %d refused, %d uncertain, %d of them read in vain",
		c.Busy(), c.Saving(), s.shell.Stuck(), s.shell.Refused(), all, inVain)
	if held := s.shell.held.List(); len(held) > 0 {
		s.printf("%d shards are held, the first is %d", len(held), held[0])
	}
	return nil
}
