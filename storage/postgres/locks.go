package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/internal/pglocks"
	"github.com/taskengine/taskengine/internal/wakeup"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/schema"
	"github.com/taskengine/taskengine/task"
)

// lockMemory remembers the locks for which transactions have waited in vain, so that batches that need them are not tried
// together with others, which would wait each time.
type lockMemory struct {
	mu     sync.Mutex
	failed map[lockName]time.Time // guarded by mu: when the last transaction failed that waited for it
	holder string                 // guarded by mu: the sessions that may have held the locks when that was looked up last
	looked time.Time              // guarded by mu: when that was
	rows   time.Time              // guarded by mu: when a row was last found locked
}

// lockName names a lock for which a transaction waits: of a row, a unique key of a type, or an ordering key.
type lockName struct {
	kind lockKind
	typ  string // of a unique key,
	in   string // and the ordering key within which it is unique
	text string
}

type lockKind uint8

const (
	rowLock lockKind = iota
	keyLock
	orderLock
)

const (
	// lockKnown is how long a lock is remembered for which no transaction has waited again.
	lockKnown = time.Minute
	// lockWary is for how long after a row was found locked each batch is examined for others: a session often locks many.
	lockWary = 10 * time.Second
	// maxLocks is how many locks are remembered. Others are found out again each time.
	maxLocks = 10_000
)

func rowName(id task.ID) lockName { return lockName{rowLock, "", "", string(id[:])} }

// insertNames returns the locks for which the insert of a row may wait.
func insertNames(t *task.Task) (names []lockName) {
	if t.Key != "" {
		names = append(names, lockName{keyLock, t.Type, t.OrderingKey, t.Key})
	}
	if t.OrderingKey != "" {
		names = append(names, lockName{orderLock, "", "", t.OrderingKey})
	}
	return names
}

// changeNames returns the locks for which a change may wait. A grab does not change which row is the head of its key.
func changeNames(c *task.Change) []lockName {
	names := []lockName{rowName(c.ID)}
	if c.OrderingKey != "" && c.To != task.Processing {
		names = append(names, lockName{orderLock, "", "", c.OrderingKey})
	}
	return names
}

// locksOf returns the locks for which the i-th row of a batch may wait: first of Insert, then of Swap.
func locksOf(b *storage.Batch, i int) []lockName {
	if i < len(b.Insert) {
		return insertNames(b.Insert[i])
	}
	k := i - len(b.Insert)
	names := changeNames(&b.Swap[k])
	for _, t := range b.Follows(k) {
		names = append(names, insertNames(t)...)
	}
	return names
}

// isKnown reports whether a transaction has waited for a lock in vain not long ago. It is called with mu held.
func (m *lockMemory) isKnown(n lockName) bool {
	at, ok := m.failed[n]
	return ok && time.Since(at) < lockKnown
}

// refuse returns an error for a batch behind which others wait, if it would wait for a lock that is known. The error says
// for which rows.
func (m *lockMemory) refuse(b *storage.Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.failed) == 0 || b.Wait != storage.WaitLittle {
		return nil
	}
	var rows []int
	for i := range len(b.Insert) + len(b.Swap) {
		if slices.ContainsFunc(locksOf(b, i), m.isKnown) {
			rows = append(rows, i)
		}
	}
	if rows == nil {
		return nil
	}
	return &storage.Blocked{Rows: rows, Err: fmt.Errorf("%w: a lock was not free a moment ago%s", storage.ErrBusy, m.holder)}
}

// isWaiting reports whether a single row needs a lock that is known.
func (m *lockMemory) isWaiting(b *storage.Batch) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := 0; len(m.failed) > 0 && i < len(b.Insert)+len(b.Swap); i++ {
		if slices.ContainsFunc(locksOf(b, i), m.isKnown) {
			return true
		}
	}
	return false
}

// knownAtOnce is how many ordering keys are tried after a batch that found its locks taken: each may take as long as
// the way again waits.
const knownAtOnce = 4

// free returns the further ordering keys of a batch that can get their heads with it. The others would keep
// the batch waiting: known are the ones to try after it, which were tried longest ago. The rest waits until
// [storage.Tasks.Headless] finds it.
func (m *lockMemory) free(b *storage.Batch) (free, known []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range b.Keys {
		if m.isKnown(orderName(key)) {
			known = append(known, key)
		} else {
			free = append(free, key)
		}
	}
	slices.SortFunc(known, func(a, b string) int { return m.failed[orderName(a)].Compare(m.failed[orderName(b)]) })
	return free, known[:min(len(known), knownAtOnce)]
}

func orderName(key string) lockName { return lockName{orderLock, "", "", key} }

// promoteKnown gives ordering keys with known locks their heads, one by one.
func (s *Store) promoteKnown(ctx context.Context, known []string, out *storage.Outcome) {
	for _, key := range known {
		heads, err := (&verbs{store: s, way: again}).Promote(ctx, key)
		out.Heads = append(out.Heads, heads...)
		s.locks.tried(&storage.Batch{Keys: []string{key}}, true, err, orderLock)
	}
}

// forget forgets the locks that the rows of a batch have got.
func (m *lockMemory) forget(b *storage.Batch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.failed) == 0 {
		return
	}
	for i := range len(b.Insert) + len(b.Swap) {
		for _, n := range locksOf(b, i) {
			delete(m.failed, n)
		}
	}
	for _, key := range b.Keys {
		delete(m.failed, orderName(key))
	}
}

// note remembers the lock for which a batch has waited in vain, if only one of its kind can be that.
func (m *lockMemory) note(b *storage.Batch, kind lockKind) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []lockName
	for i := range len(b.Insert) + len(b.Swap) {
		names = append(names, locksOf(b, i)...)
	}
	for _, key := range b.Keys {
		names = append(names, orderName(key))
	}
	names = slices.DeleteFunc(names, func(n lockName) bool { return n.kind != kind })
	if len(names) == 0 || slices.ContainsFunc(names, func(n lockName) bool { return n != names[0] }) {
		return
	}
	m.add(names[0])
}

// add remembers locks. It is called with mu held.
func (m *lockMemory) add(names ...lockName) {
	now := time.Now()
	for n, at := range m.failed {
		if now.Sub(at) >= lockKnown {
			delete(m.failed, n)
		}
	}
	if m.failed == nil {
		m.failed = make(map[lockName]time.Time)
	}
	for _, n := range names {
		if n.kind == rowLock {
			m.rows = now
		}
		if _, known := m.failed[n]; known || len(m.failed) < maxLocks {
			m.failed[n] = now
		}
	}
}

// isWary reports whether a row was found locked a moment ago.
func (m *lockMemory) isWary() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Since(m.rows) < lockWary
}

// lockedRows are the rows that exist and that another transaction keeps locked.
const lockedRows = `
with free as (select id from {task} where id = any($1::uuid[]) for update skip locked)
select t.id from {task} t where t.id = any($1::uuid[]) and not exists (select from free f where f.id = t.id)`

// examine returns an error if changes of a batch need rows that others keep locked, without waiting for them, or if
// the tasks are such rows that have the keys of rows on terms. It remembers the rows of the changes: a request waits for
// its task once before that is remembered. If that cannot be found out, it returns nil.
func (s *Store) examine(ctx context.Context, b *storage.Batch) error {
	v := &verbs{store: s, way: least}
	keys, err := v.holdersOf(ctx, b)
	if err != nil || len(b.Swap)+len(keys) == 0 {
		return nil
	}
	ids, changed := slices.Collect(maps.Keys(keys)), make(map[task.ID]bool)
	for i := range b.Swap {
		ids = append(ids, b.Swap[i].ID)
		changed[b.Swap[i].ID] = true
	}
	var names []lockName
	var rows []int // of Insert
	var p pipe
	p.add(func(found pgx.Rows) error {
		id := task.ID(found.RawValues()[0])
		if rows = append(rows, keys[id]...); changed[id] {
			names = append(names, rowName(id))
		}
		return nil
	}, s.sql.locked, uuids(ids, itself))
	if err := v.do(ctx, &p); err != nil || len(names)+len(rows) == 0 {
		return nil
	}
	s.locks.mu.Lock()
	s.locks.add(names...)
	holder := s.locks.holder
	s.locks.mu.Unlock()
	err = s.locks.refuse(b)
	if len(rows) == 0 {
		return err
	}
	if known := (*storage.Blocked)(nil); errors.As(err, &known) {
		rows = append(rows, known.Rows...)
	}
	slices.Sort(rows)
	return &storage.Blocked{Rows: slices.Compact(rows), Err: fmt.Errorf("%w: the task that has a key is locked%s", storage.ErrBusy, holder)}
}

// tried is note or forget after a verb outside of a batch, which may have needed a lock that is known.
func (m *lockMemory) tried(b *storage.Batch, known bool, err error, kind lockKind) {
	switch {
	case pglocks.IsTimeout(err):
		m.note(b, kind)
	case err == nil && known:
		m.forget(b)
	}
}

// learn remembers the lock for which a batch has waited in vain, and forgets the locks that it got. It returns the error of
// the batch: an outage if a whole table is locked, otherwise with the sessions that may hold the lock.
func (s *Store) learn(ctx context.Context, b *storage.Batch, err error) error {
	switch {
	case err == nil:
		if b.Wait != storage.WaitLittle {
			s.locks.forget(b)
		}
		return nil
	case !pglocks.IsTimeout(err):
		return err
	}
	holders, locked := s.locks.lately()
	if b.Wait == storage.WaitLittle || holders == "" {
		holders, locked = s.holders(ctx)
	}
	if locked {
		return storage.Undone(fmt.Errorf("postgres: a table is locked%s: %w: %v", holders, storage.ErrUnavailable, err))
	}
	kind := s.kindOf(err)
	if kind == rowLock && len(b.Swap) == 0 && len(onRules(b)) > 0 { // the row of the task that has the key
		if kind = keyLock; b.Wait != storage.WaitLong { // others that replace it may have it for a moment
			return fmt.Errorf("%w%s", err, holders)
		}
	}
	s.locks.note(b, kind)
	return fmt.Errorf("%w%s", err, holders)
}

// kindOf returns the kind of lock for which a statement has waited.
func (s *Store) kindOf(err error) lockKind {
	var of *statementError
	if !errors.As(err, &of) {
		return rowLock
	}
	switch of.sql {
	case s.sql.claimKeys, s.sql.releaseKeys:
		return keyLock
	case s.sql.lockKeys, s.sql.demote, s.sql.promote, s.sql.heads, s.sql.takeHead:
		return orderLock
	}
	return rowLock
}

// holdersPatience is how long the look at the sessions may take that hold locks.
const holdersPatience = time.Second

// holders returns which sessions may hold the locks, as the end of a text, and whether one of them has locked a whole
// table, or waits for that: then others wait behind it.
func (s *Store) holders(ctx context.Context) (text string, locked bool) {
	ctx, cancel := context.WithTimeout(ctx, holdersPatience)
	defer cancel()
	all, err := pglocks.Holders(ctx, s.pool, s.taskTables())
	if err == nil {
		text = pglocks.Text(all)
	}
	locked = slices.ContainsFunc(all, func(h pglocks.Holder) bool { return h.KeepsAll })
	s.locks.mu.Lock()
	defer s.locks.mu.Unlock()
	s.locks.holder, s.locks.looked = text, time.Now()
	return text, locked
}

// holdersFor is how long the result of holders is used for batches behind which no others wait: there may be many.
const holdersFor = time.Second

// lately returns the last result of holders, if that was no lock of a whole table; "" if it is old.
func (m *lockMemory) lately() (text string, locked bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.looked) > holdersFor {
		return "", false
	}
	return m.holder, false
}

// taskTables are the tables in which locks keep batches waiting.
func (s *Store) taskTables() (t pglocks.Tables) {
	for _, name := range []string{"task", "key", "ended"} {
		t.All = append(t.All, s.partitions.quoted(name))
	}
	return t
}

// nodeTables are all tables in which locks keep a node waiting: the tables of tasks, and of the coordination of nodes.
func (s *Store) nodeTables() pglocks.Tables {
	t := s.taskTables()
	for _, name := range schema.CoordinationTables() {
		t.Some = append(t.Some, s.partitions.quoted(name))
	}
	return t
}

// Blockers implements [storage.Locker].
func (s *Store) Blockers(ctx context.Context) ([]storage.Blocker, error) {
	all, err := pglocks.Holders(ctx, s.pool, s.nodeTables())
	if slices.ContainsFunc(all, func(h pglocks.Holder) bool { return h.Since.IsZero() }) && err == nil {
		all, err = s.lasting(ctx, all)
	}
	if err != nil {
		return nil, s.failed("look for sessions that hold locks", err)
	}
	var out []storage.Blocker
	for _, h := range all {
		out = append(out, h.Blocker)
	}
	return out, nil
}

// lookAgain is after what time a transaction is looked at again of which the role may not see when it began.
const lookAgain = 300 * time.Millisecond

// lasting returns the holders with transactions that have lasted for a while: some do not say when they began.
func (s *Store) lasting(ctx context.Context, before []pglocks.Holder) ([]pglocks.Holder, error) {
	if err := wakeup.Sleep(ctx, lookAgain); err != nil {
		return nil, err
	}
	all, err := pglocks.Holders(ctx, s.pool, s.nodeTables())
	return slices.DeleteFunc(all, func(h pglocks.Holder) bool {
		return h.Since.IsZero() && !slices.ContainsFunc(before, func(b pglocks.Holder) bool { return b.PID == h.PID && b.Transaction == h.Transaction })
	}), err
}

var _ storage.Locker = (*Store)(nil)
