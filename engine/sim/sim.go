package sim

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// Config is the subject of a simulation. The zero values of Cores and LookAhead are refused.
type Config struct {
	Policies   policy.Set // as the engine has them; every type in it has a handler, and attempts have no timeout
	Cores      int        // of the machine, 1 or more
	LookAhead  int        // as engine.Config: triggers in memory at most
	QueueAhead int        // as engine.Config.QueueLookAhead
	Costs      Costs      // the times of operations
	Seed       uint64     // of the chance in the costs and in the core
	Until      time.Duration
	// Until is when the simulation stops, counted from its start. Zero goes on until
	// every task has ended, which may be never if there are more than can be run.

	// Started is called when the handler of a task is called for the first time, and
	// Ended when it is durable that a task is done or has been given up. Both may be nil.
	Started func(Start)
	Ended   func(End)
	// Sampled is called every SampleEvery, if both are set, until SampleUntil; 0 is until the end.
	Sampled     func(Sample)
	SampleEvery time.Duration
	SampleUntil time.Duration
}

// Arrival is one task: the time of its submit and the work of its handler.
type Arrival struct {
	At    time.Duration // since the start; must not decrease
	Type  string        // one of the policies
	Group string        // the values of its keyed limits, see task.GroupOf
	Size  int           // bytes of payload
	Wait  time.Duration // how long its handler waits for others, and then
	CPU   time.Duration // how long it computes
	Fails int           // how many attempts fail before one succeeds
}

// Start is the first call of a task's handler. Insert, Queue and Grab are the parts
// of the time since its arrival: Insert until its row was durable, Queue until it got its
// slot, Grab until that was durable and the handler called. Of a task that got its slot
// with its insert, only Insert is not zero.
type Start struct {
	Arrival
	At                  time.Duration
	Insert, Queue, Grab time.Duration
	Disk                time.Duration // how much of Insert and Grab its own commits waited for the disk
}

// End is the end of a task.
type End struct {
	Arrival
	At   time.Duration
	Done bool // it succeeded; else it was given up
}

// Sample is how things stand at one moment.
type Sample struct {
	At      time.Duration
	Queued  int // ready, and without a slot
	Running int // with a slot

	// up to then, as in Result
	CPU     time.Duration
	Commits int64
	Written float64
}

// epoch is when a simulation starts.
func epoch() time.Time { return time.Unix(1_700_000_000, 0).UTC() }

// Run simulates the arrivals, which must come in the order of their times.
func Run(c Config, arrivals iter.Seq[Arrival]) (*Result, error) {
	s, err := newSim(c)
	if err != nil {
		return nil, err
	}
	next, stop := iter.Pull(arrivals)
	defer stop()
	s.next = next
	s.tell()
	for !s.shell.Core().Surveyed() { // it looks through an empty store
		if !s.step() {
			return nil, errors.New("sim: the core never looked through the store")
		}
	}
	s.began = s.now
	s.use.begin(s.now)
	if c.Sampled != nil && c.SampleEvery > 0 {
		s.at(s.now+int64(c.SampleEvery), s.sample)
	}
	if err := s.arrive(); err != nil {
		return nil, err
	}
	for s.failure == nil && !s.over() && s.step() {
	}
	if s.failure != nil {
		return nil, s.failure
	}
	return s.result(), nil
}

// simulation is one run. Everything belongs to the goroutine of Run.
type simulation struct {
	config Config
	clock
	began int64
	rng   *rand.Rand
	cores cores
	disk  disk
	store store
	driver
	use   usage
	lives map[task.ID]*life

	next    func() (Arrival, bool)
	last    time.Duration // when the newest arrival came
	came    bool          // all arrivals did
	serial  uint64
	armed   int64
	failure error
}

// life is one task on its way.
type life struct {
	Arrival
	row                    *task.Task
	limits                 []*meter // the limits of the task, while it has a slot
	taken, durable, booked int64
	diskInsert, diskGrab   time.Duration
	started                bool
	failed                 int
	arrived                int64
	weight                 int
}

func newSim(c Config) (*simulation, error) {
	switch {
	case c.Cores < 1:
		return nil, fmt.Errorf("sim: Config.Cores is %d (want 1 or more)", c.Cores)
	case c.LookAhead < 1 || c.QueueAhead < 2:
		return nil, fmt.Errorf("sim: Config.LookAhead is %d (want 1 or more) and QueueAhead %d (want 2 or more)", c.LookAhead, c.QueueAhead)
	}
	if problems := c.Policies.Check(); len(problems) > 0 {
		return nil, fmt.Errorf("sim: %d problems with the policies, the first: %s", len(problems), problems[0])
	}
	if err := c.Costs.check(); err != nil {
		return nil, err
	}
	handled := make(map[string]bool)
	c.Policies.Types = maps.Clone(c.Policies.Types)
	for name, t := range c.Policies.Types {
		handled[name] = true
		t.Timeout.Run = 0 // simulated handlers take as long as their arrivals say, and do not listen
		c.Policies.Types[name] = t
	}
	rng := rand.New(rand.NewPCG(c.Seed, 0x7461736b))
	s := &simulation{config: c, rng: rng, lives: make(map[task.ID]*life)}
	s.clock.now = epoch().UnixNano()
	s.shell = shell.New(shell.Config{Core: core.New(core.Config{
		Owner: task.ID{1}, Policies: c.Policies, Handled: handled,
		Capacity: c.LookAhead, QueueCapacity: c.QueueAhead, Chance: rng.Float64,
	})})
	s.cores = cores{clock: &s.clock, rng: rng, costs: &s.config.Costs, all: c.Cores, free: c.Cores}
	s.disk = disk{clock: &s.clock, rng: rng, costs: &s.config.Costs, cores: &s.cores}
	s.store = newStore()
	s.idle = writers
	s.use = newUsage(c.Policies)
	return s, nil
}

// over reports whether there is nothing more to come, or no more time.
func (s *simulation) over() bool {
	if u := s.config.Until; u > 0 && s.now-s.began >= int64(u) {
		return true
	}
	return s.came && len(s.lives) == 0
}

func (s *simulation) since() time.Duration { return time.Duration(s.now - s.began) }

func (s *simulation) wall() time.Time { return time.Unix(0, s.now).UTC() }

// arrive has the next task come at its time.
func (s *simulation) arrive() error {
	a, ok := s.next()
	if !ok {
		s.came = true
		return nil
	}
	if _, known := s.config.Policies.Types[a.Type]; !known {
		return fmt.Errorf("sim: an arrival has the type %q, which has no policy", a.Type)
	}
	if a.At < s.last || a.Wait < 0 || a.CPU < 0 || a.Size < 0 {
		return fmt.Errorf("sim: the arrival %+v is out of order, or has something negative", a)
	}
	s.last = a.At
	s.at(s.began+int64(a.At), func() {
		s.submit(a)
		if err := s.arrive(); err != nil {
			s.failure = err
		}
	})
	return nil
}

// submit is a caller of Submit.
func (s *simulation) submit(a Arrival) {
	s.serial++
	l := &life{Arrival: a, arrived: s.now}
	p := s.config.Policies.Types[a.Type]
	l.row = &task.Task{ID: idOf(s.serial), Type: a.Type, Group: a.Group, Priority: p.Priority}
	l.limits, l.weight = s.use.metersOf(a.Type, a.Group), p.Weight
	s.lives[l.row.ID] = l
	s.use.submitted++
	s.cores.doOnEvent(s.config.Costs.Submit, func() {
		wasEmpty := s.inbox.Len() == 0
		s.inbox.Submissions = append(s.inbox.Submissions, &shell.Submission{Rows: []*task.Task{l.row}})
		if wasEmpty {
			s.signal()
		}
	})
}

// idOf returns the id of the n-th task.
func idOf(n uint64) (id task.ID) {
	for i := range 8 {
		id[15-i] = byte(n >> (8 * i))
	}
	return id
}

func (s *simulation) sample() {
	s.config.Sampled(Sample{
		At: s.since(), Queued: s.store.ready, Running: s.shell.Core().Busy(),
		CPU: s.cores.busy, Commits: s.use.commits, Written: s.disk.written,
	})
	if s.config.SampleUntil == 0 || s.since() < s.config.SampleUntil {
		s.at(s.now+int64(s.config.SampleEvery), s.sample)
	}
}
