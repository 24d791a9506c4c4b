package sim

import (
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/engine/internal/shell"
	"github.com/taskengine/taskengine/engine/internal/table"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

// writers and maxGather are as in the engine.
const (
	writers   = 2
	maxGather = 16
)

// driver drives the shell of the engine as package engine does: the same events, batches and waits,
// step by step in the same order.
type driver struct {
	shell   *shell.Shell
	inbox   shell.Events
	effects shell.Effects
	idle    int  // writers that wait to be woken
	token   bool // one will find that it was
	locked  bool // a writer has the turn
	queue   []func()
}

// written is a batch and the outcome of its commit.
type written struct {
	*shell.Batch
	out   storage.Outcome
	taken int64
	disk  time.Duration
}

// signal wakes a writer.
func (s *simulation) signal() {
	if s.idle == 0 {
		s.token = true
		return
	}
	s.idle--
	s.after(s.config.Costs.Gather, func() {
		s.lock(func() { s.gather(-1, maxGather) })
	})
}

// gather lets others compute first for as long as they have something to say.
func (s *simulation) gather(before, rounds int) {
	s.cores.do(0, func() {
		count := s.inbox.Len()
		if count == before || rounds == 0 {
			s.commit()
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

// lock calls fn when it is the writer's turn.
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

// commit commits the next batch.
func (s *simulation) commit() {
	s.drain()
	s.perform()
	next := s.shell.Next(s.wall(), 0, nil)
	s.wakeWriter()
	if next == nil {
		s.unlock()
		s.rest()
		return
	}
	next.Fill()
	b := &written{Batch: next, taken: s.now}
	cpu, bytes, logged := s.price(&b.Do)
	s.use.commits++
	s.cores.doStalled(cpu, func() {
		s.store.commit(&b.Do, &b.out)
		isLarge := next.IsLarge()
		if !s.config.Costs.Serial && !isLarge {
			s.unlock()
		}
		asked := s.now
		s.disk.sync(bytes, logged, func(woken time.Duration) {
			b.disk = time.Duration(s.now - asked)
			if s.config.Costs.Serial && !isLarge {
				s.unlock()
			}
			c := &s.config.Costs
			rows := len(b.Do.Insert) + len(b.Do.Swap)
			s.after(woken, func() {
				s.cores.do(c.Tell+time.Duration(rows)*c.TellRow, func() {
					s.answer(b)
					if isLarge {
						s.unlock()
					}
					s.rest()
				})
			})
		})
	})
}

// price returns the CPU time of a transaction, the bytes that it writes, and how many of them to the log.
func (s *simulation) price(b *storage.Batch) (cpu time.Duration, bytes, logged float64) {
	c := &s.config.Costs
	size, again := 0, 0
	for _, t := range b.Insert {
		size += s.lives[t.ID].Size
	}
	for i := range b.Swap {
		again += s.again(b.Swap[i].ID)
	}
	inserts, swaps := float64(len(b.Insert)), float64(len(b.Swap))
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

// background starts work without a caller that waits for it.
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

// answer passes the outcome of a batch to the shell.
func (s *simulation) answer(b *written) {
	s.drain()
	for _, t := range b.Do.Insert {
		l := s.lives[t.ID]
		l.taken, l.durable, l.diskInsert = b.taken, s.now, b.disk
	}
	saves := b.Saves()
	for i, t := range b.out.Swapped {
		if i < len(saves) {
			s.ended(t)
		} else {
			s.lives[b.Do.Swap[i].ID].diskGrab = b.disk
		}
	}
	s.shell.Written(s.wall(), b.Batch, b.out)
	s.perform()
	s.wakeWriter()
	c := &s.config.Costs
	for _, r := range s.effects.Replies {
		for _, t := range r.Submission.Rows {
			s.cores.do(c.Ack+time.Duration(float64(s.lives[t.ID].Size)*c.AckByte), func() {})
		}
	}
}

// ended counts a task that has ended.
func (s *simulation) ended(t *task.Task) {
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

// drain passes the inbox to the shell.
func (s *simulation) drain() {
	for _, e := range s.inbox.Endings {
		s.use.release(s.now, s.lives[e.Ref.ID])
	}
	s.shell.Pass(s.wall(), &s.inbox)
	s.inbox.Reset()
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

// tell passes an event to the core and performs its effects.
func (s *simulation) tell() {
	s.perform()
	s.wakeWriter()
}

func (s *simulation) wakeWriter() {
	if s.shell.HasWork(0) {
		s.signal()
	}
}

// perform performs the effects of the shell, except for its batches.
func (s *simulation) perform() {
	r := &s.effects
	s.shell.Collect(r)
	for _, t := range r.Inserts {
		if t.State == task.Processing {
			s.book(s.lives[t.ID])
		}
	}
	for _, grabs := range [][]task.Change{r.Grabs, r.Relaxed} {
		for _, g := range grabs {
			s.book(s.lives[g.ID])
		}
	}
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
		s.begin(s.lives[run.ID], run.Task.Ref())
	}
	s.arm()
}

// readPage and readRow are the rough times of reads from the store: a read happens once
// for hundreds of tasks, and only when many wait.
const (
	readPage = 20 * time.Microsecond
	readRow  = time.Microsecond
)

func (s *simulation) scan(q table.Scan) {
	queues, end := s.store.queuesAfter(q.After, q.Limit)
	s.shell.Core().Scanned(queues, end)
	s.tell()
}

func (s *simulation) loadDue(q core.DueLoad) {
	page, end := s.store.due(q)
	s.shell.Core().DueLoaded(s.wall(), q, page, end)
	s.tell()
}

func (s *simulation) load(q table.Load) {
	page, end := s.store.load(q)
	s.shell.Core().Loaded(s.wall(), q.Queue, page, end)
	s.tell()
}

// arm schedules the next Tick of the core.
func (s *simulation) arm() {
	wake := s.shell.Wake()
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
		s.drain()
		s.shell.Tick(s.wall())
		s.tell()
	})
}

// begin calls the handler: it waits, then computes, then leaves word.
func (s *simulation) begin(l *life, ref task.Ref) {
	c := &s.config.Costs
	s.cores.do(c.Start, func() {
		s.started(l)
		end := func() {
			wasEmpty := s.inbox.Len() == 0
			s.inbox.Endings = append(s.inbox.Endings, shell.Ending{Ref: ref, Type: l.Type, Verdict: l.verdict()})
			if wasEmpty {
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
