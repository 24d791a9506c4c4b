package shell

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/taskengine/taskengine/engine/internal/core"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/task"
)

var (
	errAway    = fmt.Errorf("the database is away: %w", storage.ErrUnavailable)
	errLost    = errors.New("the answer was lost")
	errRefused = fmt.Errorf("it does not fit: %w", storage.ErrRefused)
)

var beginning = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// world is a shell, and the databases, callers and handlers around it. It has no goroutine and no
// clock: a test says what happens next. It fails if the shell breaks a promise.
type world struct {
	fail  func(format string, args ...any)
	shell *Shell
	now   time.Time
	owner task.ID

	lanes   int
	keeps   [task.ShardCount]int // the database that keeps a shard
	believe [task.ShardCount]int // what LaneOf answers
	rows    map[task.ID]*task.Task
	seq     uint64
	made    map[task.ID]bool  // rows that were inserted, also if they were deleted since
	follows map[task.Ref]int  // how many rows are to follow the end of an attempt
	unknown map[task.Ref]bool // heads that were grabbed by a batch that failed, as far as the shell knows

	spare    *Batch    // a batch for reuse
	underWay []*commit // in the order in which Next has given them out
	effects  Effects
	running  map[task.ID]core.Run
	ran      map[task.Ref]bool // versions that handlers have been called for
	open     map[any]bool      // *Submission and *Edit that are not answered

	// effects, until a test has looked at them
	begun                 []core.Run
	replies               []Reply
	lines                 []Log
	failure               error
	heldChanged, released bool
}

// commit is a batch that was given out.
type commit struct {
	*Batch
	number int
	isDone bool // the database has made it
	out    storage.Outcome
}

func newWorld(lanes int, noSync bool, set policy.Set, fail func(string, ...any)) *world {
	w := &world{
		fail: fail, now: beginning, owner: task.ID{0xff}, lanes: lanes,
		rows: map[task.ID]*task.Task{}, made: map[task.ID]bool{}, follows: map[task.Ref]int{}, unknown: map[task.Ref]bool{},
		running: map[task.ID]core.Run{}, ran: map[task.Ref]bool{}, open: map[any]bool{},
	}
	handled, backlogs := map[string]bool{}, map[string]policy.Backlog{}
	for name, p := range set.Types {
		handled[name], backlogs[name] = true, p.MaxBacklog
	}
	for shard := range w.keeps {
		w.keeps[shard] = shard % lanes
	}
	w.believe = w.keeps
	w.shell = New(Config{
		Core: core.New(core.Config{
			Owner: w.owner, Policies: set, Handled: handled, Capacity: 1000, QueueCapacity: 1000,
			Chance: func() float64 { return 0.5 }, GrabsHeads: lanes == 1,
		}),
		Lanes: lanes, LaneOf: func(shard uint16) int { return w.believe[shard] }, NoSync: noSync, Backlogs: backlogs,
	})
	return w
}

// collect performs the effects of the shell.
func (w *world) collect() {
	for {
		w.shell.Collect(&w.effects)
		for _, run := range w.effects.Runs {
			w.run(run)
		}
		for _, r := range w.effects.Replies {
			w.answered(r)
		}
		w.lines, w.failure = append(w.lines, w.effects.Logs...), w.effects.Failure
		w.heldChanged, w.released = w.heldChanged || w.effects.Held, w.released || w.effects.Released
		if !w.read() {
			return
		}
	}
}

func (w *world) run(run core.Run) {
	ref := run.Task.Ref()
	if _, is := w.running[run.ID]; is {
		w.fail("task %v is run twice at once", run.ID)
	}
	if w.ran[ref] {
		w.fail("task %v is run twice at version %d", run.ID, ref.Version)
	}
	if run.Task.OrderingKey != "" && run.Task.Turn != task.Head {
		w.fail("task %v is run before its turn", run.ID)
	}
	if !w.made[run.ID] {
		w.fail("task %v is run and was never inserted", run.ID)
	}
	w.running[run.ID], w.ran[ref] = run, true
	w.begun = append(w.begun, run)
}

// answered checks a reply, and keeps it.
func (w *world) answered(r Reply) {
	var request any = r.Submission
	if r.Submission == nil {
		request = r.Edit
	}
	if !w.open[request] {
		w.fail("a request is answered that is not open: %+v", r)
	}
	delete(w.open, request)
	w.replies = append(w.replies, r)
	if r.Err != nil {
		return
	}
	if s := r.Submission; s != nil {
		if len(s.Inserted) != len(s.Rows) {
			w.fail("%d rows were submitted, and %d outcomes returned", len(s.Rows), len(s.Inserted))
		}
		for i, in := range s.Inserted {
			if id := s.Rows[i].ID; !w.made[id] || !in.Created() && in.Existing != id {
				w.fail("task %v is said to be inserted: %+v", id, in)
			}
		}
	} else if after := r.Edit.After; after != nil {
		if row := w.rows[after.ID]; row != nil && row.Version < after.Version {
			w.fail("task %v is said to be at version %d, and is at %d", after.ID, after.Version, row.Version)
		}
	}
}

// read answers the reads of the core, and reports whether there were any.
func (w *world) read() bool {
	c, e := w.shell.Core(), &w.effects
	for _, s := range e.Scans {
		var queues []task.Queue
		for _, row := range w.rows {
			q := row.Queue()
			if row.State == task.Submitted && cmp.Or(cmp.Compare(q.Type, s.After.Type), cmp.Compare(q.Group, s.After.Group)) > 0 && !slices.Contains(queues, q) {
				queues = append(queues, q)
			}
		}
		slices.SortFunc(queues, func(a, b task.Queue) int { return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Group, b.Group)) })
		c.Scanned(queues, true)
	}
	for _, l := range e.DueLoads {
		var page []core.Due
		for _, row := range w.rows {
			after := cmp.Or(row.NextEventAt.Compare(l.AfterAt), row.ID.Compare(l.AfterID)) > 0
			if row.State == l.State && !row.NextEventAt.IsZero() && after {
				page = append(page, core.Due{Trigger: row.Trigger(), At: row.NextEventAt})
			}
		}
		slices.SortFunc(page, func(a, b core.Due) int { return cmp.Or(a.At.Compare(b.At), a.ID.Compare(b.ID)) })
		c.DueLoaded(w.now, l, page, true)
	}
	for _, l := range e.Loads {
		page, end, _ := l.Read(func(after *task.Rank, limit int) (rows []task.Trigger, err error) {
			for _, row := range w.rows {
				if row.State == task.Submitted && row.Queue() == l.Queue && (after == nil || row.Rank().Compare(*after) > 0) {
					rows = append(rows, row.Trigger())
				}
			}
			slices.SortFunc(rows, func(a, b task.Trigger) int { return a.Rank.Compare(b.Rank) })
			return rows[:min(len(rows), limit)], nil
		})
		c.Loaded(w.now, l.Queue, page, end)
	}
	return len(e.Scans)+len(e.DueLoads)+len(e.Loads) > 0
}

// submit submits rows.
func (w *world) submit(rows ...*task.Task) { w.send(&Submission{Rows: rows}) }

// send submits rows, and waits for room if the submission says so.
func (w *world) send(s *Submission) {
	s.Done = make(chan error, 1)
	w.open[s] = true
	w.shell.Pass(w.now, &Events{Submissions: []*Submission{s}})
	w.collect()
}

// withdraw has a caller wait no longer for room. It reports whether the caller has waited.
func (w *world) withdraw(s *Submission) bool {
	if w.shell.Withdraw(w.now, s) == nil {
		return false
	}
	delete(w.open, s)
	w.collect()
	return true
}

// recount counts the backlogs.
func (w *world) recount() {
	counts := map[storage.StateType]int64{}
	for _, row := range w.rows {
		counts[storage.StateType{State: row.State, Type: row.Type}]++
	}
	w.shell.Recount()
	w.shell.Recounted(w.now, counts)
	w.collect()
}

// edit changes a row as a person does.
func (w *world) edit(row *task.Task, to task.State) {
	ed := &Edit{Read: row.Version, From: row.State, Change: task.Change{Ref: row.Ref(), To: to, At: w.now, Outcome: task.Overruled}, Done: make(chan error, 1)}
	if to == task.Submitted {
		ed.Change.Count = task.Reset
	}
	w.open[ed] = true
	w.shell.Edit(row.Type, ed)
	w.collect()
}

// end ends the attempt of a task. how has "note" if the handler has reported a progress, and "finish"
// or "rollback" if it has finished the task in a transaction without an answer to its commit.
func (w *world) end(id task.ID, v task.Verdict, how ...string) {
	run := w.running[id]
	delete(w.running, id)
	ending := Ending{Ref: run.Task.Ref(), Type: run.Type, Verdict: v}
	if v.Rerun != nil {
		w.follows[ending.Ref] = len(v.Rerun.Rows)
	}
	if slices.Contains(how, "note") {
		ending.Progress = new(task.Progress)
	}
	isDone := slices.Contains(how, "finish")
	if isDone || slices.Contains(how, "rollback") {
		change := task.Change{Ref: ending.Ref, To: task.Done, At: w.now}
		row := run.Task.Clone()
		change.Apply(row)
		ending.Finish = &Finish{Row: row}
		if isDone {
			w.swap(change)
		}
	}
	w.shell.Pass(w.now, &Events{Endings: []Ending{ending}})
	w.collect()
}

// next gives out the next batch of a lane. It returns nil if there is none.
func (w *world) next(lane int) *commit {
	has := w.shell.HasWork(lane)
	b := w.shell.Next(w.now, lane, w.spare)
	if has != (b != nil) {
		w.fail("lane %d: HasWork is %v, and Next returns %v", lane, has, b)
	}
	if b == nil {
		return nil
	}
	if b.Lane != lane {
		w.fail("a batch of lane %d is of lane %d", lane, b.Lane)
	}
	w.spare = nil
	b.Fill()
	for _, other := range w.underWay {
		if what, is := shared(b, other.Batch); is {
			w.fail("%v is in two batches at once", what)
		}
	}
	number := 1
	for _, other := range w.underWay {
		number = max(number, other.number+1)
	}
	c := &commit{Batch: b, number: number}
	w.underWay = append(w.underWay, c)
	return c
}

// shared returns an item that two batches have.
func shared(a, b *Batch) (what any, is bool) {
	for _, row := range a.Do.Insert {
		if slices.Contains(b.Do.Insert, row) {
			return row.ID, true
		}
	}
	for i := range a.saves {
		if slices.ContainsFunc(b.saves, func(s core.Save) bool { return s.Ref == a.saves[i].Ref && s.To == a.saves[i].To }) {
			return a.saves[i].Ref, true
		}
	}
	for _, g := range a.grabs {
		if slices.ContainsFunc(b.grabs, func(other task.Change) bool { return other.Ref == g.Ref }) {
			return g.Ref, true
		}
	}
	for _, ed := range a.edits {
		if slices.Contains(b.edits, ed) {
			return ed.Change.Ref, true
		}
	}
	return nil, false
}

// do has the database make a batch.
func (w *world) do(c *commit) {
	if !c.isDone {
		c.out, c.isDone = w.apply(c.Lane, &c.Do), true
	}
}

// apply makes a batch in a database.
func (w *world) apply(database int, b *storage.Batch) storage.Outcome {
	out := storage.Outcome{Inserted: make([]storage.Inserted, len(b.Insert)), Swapped: make([]*task.Task, len(b.Swap))}
	for i, t := range b.Insert {
		switch {
		case w.keeps[t.ID.Shard()] != database:
			out.Elsewhere = append(out.Elsewhere, i)
		case w.rows[t.ID] != nil:
			out.Inserted[i].Existing = t.ID
		default:
			w.insert(t)
		}
	}
	for i, c := range b.Swap {
		if w.keeps[c.ID.Shard()] != database {
			out.Elsewhere = append(out.Elsewhere, len(b.Insert)+i)
		} else if out.Swapped[i] = w.swap(c); out.Swapped[i] != nil && b.Removes(i) {
			delete(w.rows, c.ID)
		}
		if out.Swapped[i] != nil {
			w.follow(i, b, &out)
		}
	}
	for _, i := range out.Elsewhere {
		id := task.ID{}
		if i < len(b.Insert) {
			id = b.Insert[i].ID
		} else {
			id = b.Swap[i-len(b.Insert)].ID
		}
		w.believe[id.Shard()] = w.keeps[id.Shard()]
	}
	w.giveHeads(b, &out)
	return out
}

// giveHeads gives all ordering keys their heads, and makes the grabs of heads.
func (w *world) giveHeads(b *storage.Batch, out *storage.Outcome) {
	for i, g := range b.Heads {
		ended := out.Swapped[g.After]
		if ended == nil {
			continue
		}
		h := w.headOf(ended.OrderingKey)
		if h == nil || h.State != task.Submitted || h.Queue() != g.Queue || h.Rank().Priority != g.Priority {
			continue
		}
		if out.Grabbed == nil {
			out.Grabbed = make([]*task.Task, len(b.Heads))
		}
		g.Grab.Ref = h.Ref()
		out.Grabbed[i] = w.swap(g.Grab)
	}
	for _, key := range w.keys() {
		if h := w.headOf(key); h != nil && h.State == task.Submitted {
			out.Heads = append(out.Heads, h.Hint())
		}
	}
}

// keys returns the ordering keys of all rows.
func (w *world) keys() (keys []string) {
	for _, row := range w.rows {
		if row.OrderingKey != "" && !slices.Contains(keys, row.OrderingKey) {
			keys = append(keys, row.OrderingKey)
		}
	}
	slices.Sort(keys)
	return keys
}

// headOf gives an ordering key its head, and returns it; nil if there is none.
func (w *world) headOf(key string) *task.Task {
	head, first := task.Candidates(maps.Values(w.rows), key)
	demote, promote := task.NextHead(head, first)
	if demote {
		head.Turn, head.Boost = task.Behind, 0
	}
	if promote {
		first.Turn, head = task.Head, first
	}
	if head != nil {
		head.Boost = head.Inherit(task.Lent(maps.Values(w.rows), key))
	}
	return head
}

// follow inserts the rows that follow a change which was made.
func (w *world) follow(i int, b *storage.Batch, out *storage.Outcome) {
	c := &b.Swap[i]
	if got, want := len(b.Follows(i)), w.follows[c.Ref]; c.Outcome == task.Completed && got != want {
		w.fail("%d rows follow the end of %v, of %d", got, c.Ref, want)
	}
	for _, t := range b.Follows(i) {
		if w.made[t.ID] {
			w.fail("row %v follows twice", t.ID)
		}
		w.insert(t)
		if out.Followed == nil {
			out.Followed = make([][]storage.Inserted, len(b.Swap))
		}
		out.Followed[i] = append(out.Followed[i], storage.Inserted{})
	}
}

func (w *world) insert(t *task.Task) {
	w.seq++
	t.Seq = w.seq
	w.rows[t.ID], w.made[t.ID] = t.Clone(), true
}

func (w *world) swap(c task.Change) *task.Task {
	if row, ok := w.rows[c.ID]; ok && c.Apply(row) {
		return row.Clone()
	}
	return nil
}

// later returns a function that makes a batch that the shell takes for failed.
func (w *world) later(c *commit) func() {
	b := storage.Batch{Swap: slices.Clone(c.Do.Swap), Remove: slices.Clone(c.Do.Remove), Heads: slices.Clone(c.Do.Heads)}
	for _, t := range c.Do.Insert {
		b.Insert = append(b.Insert, t.Clone())
	}
	for _, rows := range c.Do.Follow {
		var follow []*task.Task
		for _, t := range rows {
			follow = append(follow, t.Clone())
		}
		b.Follow = append(b.Follow, follow)
	}
	return func() {
		out := w.apply(c.Lane, &b)
		w.loseHeads(&out)
	}
}

// loseHeads notes that the shell does not learn which heads a batch has grabbed.
func (w *world) loseHeads(out *storage.Outcome) {
	for _, h := range out.Grabbed {
		if h != nil {
			w.unknown[h.Ref()] = true
		}
	}
}

// answer answers a batch: as done, or with an error.
func (w *world) answer(c *commit, err error) {
	w.underWay = slices.DeleteFunc(w.underWay, func(other *commit) bool { return other == c })
	if err == nil {
		w.do(c)
		c.Unsure(&c.out, func(f *Finish) bool {
			row := w.rows[f.Row.ID]
			return row != nil && row.State == task.Done && row.Version == f.Row.Version
		})
		w.shell.Written(w.now, c.Batch, c.out)
		c.Reset()
		w.spare = c.Batch
	} else {
		w.loseHeads(&c.out)
		w.shell.Failed(w.now, c.Batch, err)
	}
	w.collect()
}

// resolve reads the row of the next uncertain task, and reports whether there was one.
func (w *world) resolve(inVain, canRead bool) bool {
	id := w.shell.NextUncertain(inVain)
	if id.IsZero() {
		return false
	}
	if canRead {
		var t *task.Task
		if row := w.rows[id]; row != nil {
			t = row.Clone()
		}
		w.shell.Resolve(w.now, id, t, true)
	} else {
		w.shell.Unread(id)
	}
	w.collect()
	return true
}

// tick tells the shell the time.
func (w *world) tick() {
	w.shell.Tick(w.now)
	w.collect()
}

// step sets the clock.
func (w *world) step(d time.Duration) {
	w.now = w.now.Add(d)
	w.shell.Step(d)
}

// createdAs makes t a row that is inserted in a transaction of a caller.
func createdAs(w *world, t *task.Task) { w.shell.Core().Rules(t.Type).Create(w.now, t) }
