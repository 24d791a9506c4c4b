package sim

import (
	"math/rand/v2"
	"time"
)

// clock is virtual time: the events to come, by their times. Events of the same time happen in
// the order in which they were scheduled.
type clock struct {
	now    int64 // Unix nanoseconds
	count  uint64
	events events
}

type event struct {
	at    int64
	count uint64
	fn    func()
}

func (e *event) before(f *event) bool {
	if e.at != f.at {
		return e.at < f.at
	}
	return e.count < f.count
}

// events are a binary heap: the first is the next. container/heap would allocate for each.
type events []event

func (h *events) push(e event) {
	*h = append(*h, e)
	q := *h
	for i := len(q) - 1; i > 0; {
		up := (i - 1) / 2
		if !q[i].before(&q[up]) {
			return
		}
		q[i], q[up] = q[up], q[i]
		i = up
	}
}

func (h *events) pop() event {
	q := *h
	first, last := q[0], len(q)-1
	q[0], q[last] = q[last], event{}
	q = q[:last]
	*h = q
	for i := 0; ; {
		least := i
		for down := 2*i + 1; down <= 2*i+2 && down < last; down++ {
			if q[down].before(&q[least]) {
				least = down
			}
		}
		if least == i {
			return first
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
}

// at has fn happen at a time, or now if that has passed.
func (c *clock) at(at int64, fn func()) {
	c.count++
	c.events.push(event{max(at, c.now), c.count, fn})
}

// after has fn happen after d.
func (c *clock) after(d time.Duration, fn func()) { c.at(c.now+int64(d), fn) }

// step lets the next thing happen; false if there is none.
func (c *clock) step() bool {
	if len(c.events) == 0 {
		return false
	}
	e := c.events.pop()
	c.now = e.at
	e.fn()
	return true
}

// quantum is how long a goroutine computes before it makes room for others, as in Go's
// scheduler.
const quantum = 10 * time.Millisecond

// cores compute jobs, first come, first served, and in turns if they take
// long.
type cores struct {
	*clock
	rng   *rand.Rand
	costs *Costs
	all   int
	free  int
	busy  time.Duration // computed in all
	wakes int64         // how often work came while all were idle
	colds int64         // and had been for coldAfter
	idled int64         // when all of them last became idle
	queue []job         // from head on
	head  int

	// Of the idle threads one polls for timers and messages. When it gets work of its own
	// no thread does, until another runs out of work or a watchdog polls, as in Go's scheduler
	// (findRunnable and sysmon in runtime/proc.go).
	unpolled bool
	polledAt int64 // last, while unpolled
	missed   []job // of timers and messages in that time
}

type job struct {
	stall time.Duration // passes first, and is not computed
	left  time.Duration
	done  func()
}

// do computes for d and then calls done. Work of no length takes its turn, too.
func (c *cores) do(d time.Duration, done func()) {
	c.add(job{left: d, done: done})
}

// doStalled is do for work that may be held up, see Costs.Stall.
func (c *cores) doStalled(d time.Duration, done func()) {
	c.add(job{stall: c.costs.Stall.At(c.rng.Float64()), left: d, done: done})
}

// watchdog is how long at most no thread polls for timers and messages.
const watchdog = 10 * time.Millisecond

// doOnEvent is do for work that a timer or a message asks for.
func (c *cores) doOnEvent(d time.Duration, done func()) {
	j := job{left: d, done: done}
	switch {
	case c.free == 0: // the first free core looks for it
	case !c.unpolled:
		c.unpolled, c.polledAt = true, c.now
	default:
		c.missed = append(c.missed, j)
		c.at(c.polledAt+int64(watchdog), func() {
			if c.unpolled {
				c.polledAt = c.now
				c.catchUp()
			}
		})
		return
	}
	c.add(j)
}

// poll has an idle core look for timers and messages, and wait for them.
func (c *cores) poll() {
	if c.free == 0 {
		return
	}
	c.unpolled, c.polledAt = len(c.missed) > 0, c.now
	c.catchUp()
}

func (c *cores) catchUp() {
	for _, j := range c.missed {
		c.add(j)
	}
	c.missed = c.missed[:0]
}

// coldAfter is how long cores are idle before their caches are cold.
const coldAfter = time.Millisecond

func (c *cores) add(j job) {
	if c.free == 0 {
		c.queue = append(c.queue, j)
		return
	}
	if c.free == c.all {
		c.wakes++
		c.busy += c.costs.Wake
		if c.now-c.idled >= int64(coldAfter) {
			c.colds++
			c.busy += c.costs.ColdWake
		}
	}
	c.free--
	c.run(j)
}

func (c *cores) run(j job) {
	slice := min(j.left, quantum)
	c.after(j.stall+slice, func() {
		c.busy += slice
		j.stall, j.left = 0, j.left-slice
		switch {
		case j.left == 0:
			c.free++
			c.take()
			if c.free == c.all {
				c.idled = c.now
			}
			j.done()
			c.poll()
		case c.head == len(c.queue):
			c.run(j)
		default:
			c.queue = append(c.queue, j)
			c.free++
			c.take()
		}
	})
}

// take lets the next one compute.
func (c *cores) take() {
	if c.head == len(c.queue) {
		return
	}
	j := c.queue[c.head]
	c.queue[c.head] = job{}
	if c.head++; c.head == len(c.queue) {
		c.queue, c.head = c.queue[:0], 0
	}
	c.free--
	c.run(j)
}
