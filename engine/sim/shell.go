package sim

import (
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/engine/task"
)

// writers and maxGather are those of the engine.
const (
	writers   = 2
	maxGather = 16
)

// shell is what package engine does around the core, step by step in the same order.
type shell struct {
	inbox   inbox
	pending batch
	idle    int  // writers that wait to be woken
	token   bool // one will find that it was
	locked  bool // a transaction has the store to itself
	queue   []func()
}

// inbox is where callers and handlers leave word.
type inbox struct {
	submissions []*life
	endings     []*life
}

func (in *inbox) count() int { return len(in.submissions) + len(in.endings) }

func (in *inbox) submit(l *life) (wake bool) {
	wake = in.count() == 0
	in.submissions = append(in.submissions, l)
	return wake
}

func (in *inbox) end(l *life) (wake bool) {
	wake = in.count() == 0
	in.endings = append(in.endings, l)
	return wake
}

// batch is what a writer does in one transaction.
type batch struct {
	inserts []*life
	grabs   []task.Change
	saves   []core.Save
	taken   int64
	disk    time.Duration

	// the rows afterwards
	inserted, after, saved []*task.Task
}

func (b *batch) rows() int { return len(b.inserts) + len(b.grabs) + len(b.saves) }

// signal wakes a writer.
func (s *simulation) signal() {
	if s.idle == 0 {
		s.token = true
		return
	}
	s.idle--
	s.after(s.config.Costs.Gather, func() { s.gather(-1, maxGather) })
}

// gather lets others compute first for as long as they have something to say.
func (s *simulation) gather(before, rounds int) {
	s.cores.do(0, func() {
		count := s.inbox.count()
		if count == before || rounds == 0 {
			s.lock(s.commit)
			return
		}
		s.gather(count, rounds-1)
	})
}

// rest is a writer with nothing to do.
func (s *simulation) rest() {
	s.idle++
	if s.token {
		s.token = false
		s.signal()
	}
}

// lock calls fn when the store is free.
func (s *simulation) lock(fn func()) {
	if s.locked {
		s.queue = append(s.queue, fn)
		return
	}
	s.locked = true
	fn()
}

func (s *simulation) unlock() {
	s.locked = false
	if len(s.queue) == 0 {
		return
	}
	fn := s.queue[0]
	s.queue = s.queue[1:]
	s.lock(fn)
}

// commit is a transaction of everything that is pending.
func (s *simulation) commit() {
	s.listen()
	s.collect()
	b := new(batch)
	*b, s.pending = s.pending, batch{}
	if b.rows() == 0 {
		s.unlock()
		s.rest()
		return
	}
	b.taken = s.now
	cpu, bytes, logged := s.price(b)
	s.use.commits++
	s.cores.doStalled(cpu, func() {
		s.apply(b)
		if !s.config.Costs.Serial {
			s.unlock()
		}
		asked := s.now
		s.disk.sync(bytes, logged, func(told time.Duration) {
			b.disk = time.Duration(s.now - asked)
			if s.config.Costs.Serial {
				s.unlock()
			}
			c := &s.config.Costs
			s.after(told, func() {
				s.cores.do(c.Tell+time.Duration(b.rows())*c.TellRow, func() { s.committed(b) })
			})
		})
	})
}

// price returns what a transaction computes, what it writes, and how much of that to the log.
func (s *simulation) price(b *batch) (cpu time.Duration, bytes, logged float64) {
	c := &s.config.Costs
	size, again := 0, 0
	for _, l := range b.inserts {
		size += l.Size
	}
	for _, g := range b.grabs {
		again += s.again(g.ID)
	}
	for _, sv := range b.saves {
		again += s.again(sv.ID)
	}
	inserts, swaps := float64(len(b.inserts)), float64(len(b.grabs)+len(b.saves))
	cpu = c.Commit + time.Duration(inserts*float64(c.Insert)+float64(size)*c.InsertByte+swaps*float64(c.Swap))
	bytes = c.CommitBytes + inserts*c.InsertBytes + swaps*c.SwapBytes + float64(size+again)*c.Amplify
	logged = float64(size+again) + (inserts+swaps)*c.Log.Row
	s.background(time.Duration((inserts+swaps)*float64(c.Background)+float64(size+again)*c.BackgroundByte), logged+(inserts+swaps)*c.BackgroundRow)
	return cpu, bytes, logged
}

// again returns how many bytes of payload are written with a change of a task.
func (s *simulation) again(id task.ID) int {
	if l := s.lives[id]; l != nil && l.Size <= s.config.Costs.Inline {
		return l.Size
	}
	return 0
}

// background has work done that nobody waits for.
func (s *simulation) background(cpu time.Duration, bytes float64) {
	s.use.debt += cpu
	s.use.unsorted += bytes
	if s.use.debt == 0 || s.use.unsorted < s.config.Costs.BackgroundEvery {
		return
	}
	debt := s.use.debt
	s.use.debt, s.use.unsorted = 0, 0
	s.disk.sorting++
	s.cores.do(debt, func() { s.disk.sorting-- })
}

// apply changes the rows: later transactions see it, durable or not.
func (s *simulation) apply(b *batch) {
	for _, l := range b.inserts {
		b.inserted = append(b.inserted, s.store.insert(l.row))
	}
	for _, sv := range b.saves {
		b.saved = append(b.saved, s.store.swap(sv.Change))
	}
	for _, g := range b.grabs {
		b.after = append(b.after, s.store.swap(g))
	}
}

// committed tells the core what is durable.
func (s *simulation) committed(b *batch) {
	s.listen()
	now := s.wall()
	for i, l := range b.inserts {
		l.taken, l.durable, l.diskInsert = b.taken, s.now, b.disk
		s.core.Inserted(now, b.inserted[i], true)
	}
	for i, sv := range b.saves {
		s.core.Saved(now, sv, b.saved[i])
		s.settled(b.saved[i])
	}
	for i, g := range b.grabs {
		s.lives[g.ID].diskGrab = b.disk
		s.core.Grabbed(now, g.Ref, b.after[i], false)
	}
	s.absorb()
	c := &s.config.Costs
	for _, l := range b.inserts {
		s.cores.do(c.Ack+time.Duration(float64(l.Size)*c.AckByte), func() {})
	}
	s.rest()
}

// settled sees to a task that has ended.
func (s *simulation) settled(t *task.Task) {
	if t == nil || t.State != task.Done && t.State != task.Error {
		return
	}
	l := s.lives[t.ID]
	done := t.State == task.Done
	if done {
		s.use.done++
	} else {
		s.use.failed++
	}
	delete(s.lives, t.ID)
	s.store.forget(t.ID)
	if s.config.Ended != nil {
		s.config.Ended(End{l.Arrival, s.since(), done})
	}
}

// listen tells the core what was left in the inbox.
func (s *simulation) listen() {
	now := s.wall()
	endings, submissions := s.inbox.endings, s.inbox.submissions
	s.inbox.endings, s.inbox.submissions = nil, nil
	for _, l := range endings {
		s.use.release(s.now, l)
		s.core.Handled(now, l.row.ID, l.verdict())
	}
	for _, l := range submissions {
		s.core.Submit(now, l.row)
		if l.row.State == task.Processing {
			s.book(l)
		}
	}
	s.pending.inserts = append(s.pending.inserts, submissions...)
}

func (l *life) verdict() task.Verdict {
	if l.failed < l.Fails {
		l.failed++
		return task.Verdict{Outcome: task.Errored, Error: "as simulated", Delay: -1}
	}
	return task.Verdict{Outcome: task.Completed}
}

func (s *simulation) book(l *life) {
	l.booked = s.now
	s.use.book(s.now, l)
}

// absorb does what the core wants done.
func (s *simulation) absorb() {
	s.collect()
	if s.pending.rows() > 0 {
		s.signal()
	}
}

func (s *simulation) collect() {
	r := &s.effects
	s.core.Take(r)
	for _, grabs := range [][]task.Change{r.Grabs, r.Relaxed} {
		for _, g := range grabs {
			s.book(s.lives[g.ID])
		}
		s.pending.grabs = append(s.pending.grabs, grabs...)
	}
	s.pending.saves = append(s.pending.saves, r.Saves...)
	for _, scan := range r.Scans {
		s.cores.do(readPage, func() { s.scan(scan) })
	}
	for _, l := range r.DueLoads {
		s.cores.do(readPage, func() { s.loadDue(l) })
	}
	for _, load := range r.Loads {
		s.cores.do(readPage+time.Duration(load.Limit)*readRow, func() { s.load(load) })
	}
	for _, run := range r.Runs {
		s.begin(s.lives[run.ID])
	}
	s.arm()
}

// readPage and readRow are what it takes to read from the store, roughly: it happens once
// for hundreds of tasks, and only when many wait.
const (
	readPage = 20 * time.Microsecond
	readRow  = time.Microsecond
)

func (s *simulation) scan(q table.Scan) {
	queues, end := s.store.queuesAfter(q.After, q.Limit)
	s.core.Scanned(queues, end)
	s.absorb()
}

func (s *simulation) loadDue(q core.DueLoad) {
	page, end := s.store.due(q)
	s.core.DueLoaded(s.wall(), q.State, page, end)
	s.absorb()
}

func (s *simulation) load(q table.Load) {
	page, end := s.store.load(q)
	s.core.Loaded(s.wall(), q.Queue, page, end)
	s.absorb()
}

// arm has the core told the time when it wants to know.
func (s *simulation) arm() {
	wake := s.core.Wake()
	if wake.IsZero() {
		return
	}
	at := wake.UnixNano()
	if s.armed != 0 && s.armed <= at {
		return
	}
	s.armed = at
	s.at(at, func() {
		if s.armed != at {
			return
		}
		s.armed = 0
		s.listen()
		s.core.Tick(s.wall())
		s.absorb()
	})
}

// begin calls the handler: it waits, then computes, then leaves word.
func (s *simulation) begin(l *life) {
	c := &s.config.Costs
	s.cores.do(c.Start, func() {
		s.started(l)
		end := func() {
			if s.inbox.end(l) {
				s.signal()
			}
		}
		if l.Wait > 0 {
			s.after(l.Wait, func() { s.cores.doOnEvent(l.CPU+c.End, end) })
			return
		}
		s.cores.do(l.CPU+c.End, end)
	})
}

func (s *simulation) started(l *life) {
	s.use.started++
	if l.started {
		return
	}
	l.started = true
	if s.config.Started == nil {
		return
	}
	st := Start{Arrival: l.Arrival, At: s.since(), Disk: l.diskInsert + l.diskGrab}
	if l.booked <= l.durable { // with its insert
		st.Insert = time.Duration(s.now - l.arrived)
	} else {
		st.Insert = time.Duration(l.durable - l.arrived)
		st.Queue = time.Duration(l.booked - l.durable)
		st.Grab = time.Duration(s.now - l.booked)
	}
	s.config.Started(st)
}
