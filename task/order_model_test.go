package task_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

// rule is how a model of a cluster differs from the rule for tasks of an ordering key: [task.Change.Apply] and
// [task.NextHead]. The zero rule does not.
type rule struct {
	grabsBehind    bool // a grab does not look at the turn of the row
	retryLeaves    bool // a task that waits for its next attempt is no head any more
	healLeaves     bool // a task of a dead node is no head any more
	neverLooks     bool // nothing looks for keys without a head
	overtakesBegun bool // a head that has begun is overtaken by a task with an earlier seat
	passesErrors   bool // a head that has not begun is not overtaken by an error with an earlier seat
	keepsMoved     bool // a head that takes another seat and is ready stays the head
}

// cluster is a store with tasks of a few ordering keys, and nodes that grab them whenever they like. The news that nodes get
// may be lost: a key then has no head until something looks for it.
type cluster struct {
	rule
	rng   *rand.Rand
	now   int64
	seq   uint64
	rows  []*task.Task
	begun map[task.ID]bool // it was grabbed once
	sat   map[task.ID]int  // when it took its seat
	steps int
	fault error // what a look at a key has left wrong
}

const clusterKeys = 3

// history makes a random history of a cluster, and returns how it breaks a promise, or nil.
func history(r rule, seed uint64) error {
	c := &cluster{rule: r, rng: rand.New(rand.NewPCG(seed, 5)), begun: make(map[task.ID]bool), sat: make(map[task.ID]int)}
	for range 200 {
		c.now += c.rng.Int64N(3)
		if err := cmp.Or(c.happen(), c.fault); err != nil {
			return err
		}
	}
	return cmp.Or(c.workOff(), c.fault)
}

// happen makes one thing happen.
func (c *cluster) happen() error {
	c.steps++
	if len(c.rows) == 0 || c.rng.IntN(4) == 0 {
		c.insert()
		return nil
	}
	t := c.rows[c.rng.IntN(len(c.rows))]
	if c.rng.IntN(10) == 0 {
		c.look()
	}
	return c.act(t, c.rng.IntN(8))
}

func (c *cluster) insert() {
	c.seq++
	t := &task.Task{ID: task.ID{15: byte(c.seq), 14: byte(c.seq >> 8)}, OrderingKey: fmt.Sprint(c.rng.IntN(clusterKeys))}
	t.ReadyAt = time.UnixMicro(c.now + c.rng.Int64N(12) - 9) // it may be late
	to, at := task.Submitted, time.Time{}
	if t.ReadyAt.UnixMicro() > c.now {
		to, at = task.Waiting, t.ReadyAt
	}
	t.Create(to, time.UnixMicro(c.now), at)
	t.Seq = c.seq
	c.rows = append(c.rows, t)
	c.sat[t.ID] = c.steps
	c.promote(t.OrderingKey)
}

// act does to a task what may happen to it in its state. what is from 0 to 7.
func (c *cluster) act(t *task.Task, what int) error {
	ch := task.Change{Ref: t.Ref(), At: time.UnixMicro(c.now), Owner: task.ID{1}}
	switch {
	case t.CanBeReplaced() && what == 7: // it is debounced
		ch.To, ch.Replace, ch.ReadyAt = task.Submitted, &task.Replace{}, ch.At
		if c.rng.IntN(2) == 0 {
			ch.ReadyAt = time.UnixMicro(c.now + 2)
			ch.To, ch.NextEventAt = task.Waiting, ch.ReadyAt
		}
	case t.State == task.Submitted && what == 6: // it has waited for too long
		ch.To = task.Error
	case t.State == task.Submitted:
		ch.To = task.Processing
	case t.State == task.Error && what < 2: // a person resumes it
		ch.To, ch.Count = task.Submitted, task.Reset
	case t.State == task.Waiting && t.NextEventAt.UnixMicro() <= c.now:
		ch.To = task.Submitted
	case t.State == task.Processing && what < 4:
		ch.To, ch.Outcome = task.Done, task.Completed
	case t.State == task.Processing && what < 6:
		ch.To, ch.Outcome, ch.NextEventAt = task.Waiting, task.Errored, time.UnixMicro(c.now+3)
	case t.State == task.Processing && what == 6:
		ch.To, ch.Outcome = task.Error, task.Errored
	case t.State == task.Processing: // its node has died
		ch.To, ch.Outcome = task.Submitted, task.Crashed
	default:
		return nil
	}
	return c.change(t, ch)
}

// change makes a change, and gives the key its head.
func (c *cluster) change(t *task.Task, ch task.Change) error {
	if c.grabsBehind && ch.To == task.Processing && t.Turn == task.Behind {
		t.Turn = task.Head
	}
	wasHead := t.Turn == task.Head
	if !ch.Apply(t) {
		return nil
	}
	if !ch.ReadyAt.IsZero() {
		c.sat[t.ID] = c.steps
	}
	if c.keepsMoved && wasHead && ch.To == task.Submitted {
		t.Turn = task.Head
	}
	if ch.To == task.Processing {
		return c.check(t)
	}
	if c.retryLeaves && ch.To == task.Waiting || c.healLeaves && ch.Outcome == task.Crashed {
		t.Turn = task.Behind
	}
	c.promote(t.OrderingKey)
	return nil
}

// promote gives a key its head, unless the transaction did not do so.
func (c *cluster) promote(key string) {
	if c.rng.IntN(5) > 0 {
		c.giveHead(key)
	}
}

// look gives all keys their heads that have none.
func (c *cluster) look() {
	for key := range clusterKeys {
		if !c.neverLooks {
			c.giveHead(fmt.Sprint(key))
		}
	}
}

func (c *cluster) giveHead(key string) {
	head, first := task.Candidates(slices.Values(c.rows), key)
	demote, promote := task.NextHead(head, first)
	if c.overtakesBegun && head != nil && first != nil && head.State != task.Processing && first.State == task.Submitted && first.Seat().Compare(head.Seat()) < 0 {
		demote, promote = true, true
	}
	if c.passesErrors && head != nil && first != nil && first.State == task.Error {
		demote, promote = false, false
	}
	if demote {
		head.Turn = task.Behind
	}
	if promote {
		first.Turn, head = task.Head, first
	}
	c.checkHead(head)
}

// checkHead checks a head after a look: one that is ready and has not begun has an earlier seat than all that are ready
// or in error, up to one that waits for its time.
func (c *cluster) checkHead(head *task.Task) {
	if head == nil || head.State != task.Submitted || head.HasBegun() {
		return
	}
	for _, t := range c.rows {
		if t.OrderingKey != head.OrderingKey || t.Turn != task.Behind || t.Seat().Compare(head.Seat()) >= 0 {
			continue
		}
		if t.State != task.Waiting && !slices.ContainsFunc(c.rows, func(w *task.Task) bool {
			return w.OrderingKey == t.OrderingKey && w.Turn == task.Behind && w.State == task.Waiting && w.Seat().Compare(t.Seat()) < 0
		}) {
			c.fault = fmt.Errorf("%v is the head, and %v is before it", head.ID, t.ID)
		}
	}
}

// check checks what must be so when t has been grabbed: of its key no other task has begun and not ended, and it has not
// overtaken a task, ready or in error, that had an earlier seat when it took its own.
func (c *cluster) check(t *task.Task) error {
	isFirst := !c.begun[t.ID]
	c.begun[t.ID] = true
	for _, other := range c.rows {
		switch {
		case other == t || other.OrderingKey != t.OrderingKey || !other.State.Live():
		case other.HasBegun():
			return fmt.Errorf("%v begins while %v has begun and not ended", t.ID, other.ID)
		case isFirst && other.State != task.Waiting && c.sat[other.ID] < c.sat[t.ID] && other.Seat().Compare(t.Seat()) < 0:
			return fmt.Errorf("%v overtakes %v", t.ID, other.ID)
		}
	}
	return nil
}

// workOff lets everything end that can.
func (c *cluster) workOff() error {
	const idle = 10 // rounds after which nothing more happens: longer than a task waits for its time
	for rounds := 0; rounds < idle; rounds++ {
		c.now++
		c.look()
		for _, t := range c.rows {
			before := t.Version
			c.steps++
			if err := c.act(t, 0); err != nil {
				return err
			}
			if t.Version > before {
				rounds = 0
			}
		}
	}
	for _, t := range c.rows {
		if t.State.Live() {
			return fmt.Errorf("%v is %v for ever", t.ID, t.State)
		}
	}
	return nil
}

func TestTasksOfAKeyRunOneAtATimeInOrderAndAllEndWhateverIsLost(t *testing.T) {
	for seed := range uint64(1000) {
		if err := history(rule{}, seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// Each part of the rule is needed: without it some history breaks a promise.
func TestTheModelOfTheOrderCatchesEachMutationOfTheRule(t *testing.T) {
	for name, r := range map[string]rule{
		"a grab does not look at the turn":      {grabsBehind: true},
		"a retry gives up its seat":             {retryLeaves: true},
		"healing gives up the seat":             {healLeaves: true},
		"nothing looks for keys without a head": {neverLooks: true},
		"a head that has begun is overtaken":    {overtakesBegun: true},
		"an error behind a head is passed":      {passesErrors: true},
		"a head that moves stays the head":      {keepsMoved: true},
	} {
		err := errors.New("not caught")
		for seed := uint64(0); seed < 200; seed++ {
			if found := history(r, seed); found != nil {
				err = nil
				t.Logf("%s: seed %d: %v", name, seed, found)
				break
			}
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
