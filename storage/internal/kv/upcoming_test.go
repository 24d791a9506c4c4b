package kv

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/taskengine/taskengine/task"
)

// keyStory is a random story of a few ordering keys: rows are added, changed and deleted, and the keys get their heads, in
// transactions of which some are rolled back.
type keyStory struct {
	t    *testing.T
	rng  *rand.Rand
	s    *sorted
	db   *DB
	tx   *Tx
	ids  []task.ID
	last int // the number of the last row
}

const storyKeys = 2

// uncommitted is a store of which gets and scans do not see the writes of the transaction, where that need not be.
type uncommitted struct {
	*sorted
	before *sorted
}

func (u uncommitted) Get(key []byte) ([]byte, bool, error) { return u.before.Get(key) }

func (u uncommitted) ScanCommitted(lower, upper []byte) (Cursor, error) {
	return u.before.Scan(lower, upper)
}

func newKeyStory(t *testing.T, seed uint64) *keyStory {
	s, db := filled(t, 0)
	db.recent = newRecent(4) // most rows are read from the store
	return &keyStory{t: t, rng: rand.New(rand.NewPCG(seed, 7)), s: s, db: db}
}

// transaction does a few things, and commits them or rolls them back.
func (k *keyStory) transaction() {
	before, ids := maps.Clone(k.s.keys), slices.Clone(k.ids)
	k.tx = k.db.Begin(uncommitted{k.s, &sorted{keys: before}})
	for range 1 + k.rng.IntN(6) {
		k.happen()
	}
	if k.rng.IntN(5) == 0 {
		k.tx.RolledBack()
		k.s.keys, k.ids = before, ids
		return
	}
	k.tx.Committed()
}

func (k *keyStory) happen() {
	if k.rng.IntN(40) == 0 {
		clear(k.db.upcoming) // the DB knows of too many keys
	}
	switch what := k.rng.IntN(10); {
	case len(k.ids) == 0 || what < 4 && len(k.ids) < 100:
		k.insert()
	case what < 7:
		k.change(k.get(k.ids[k.rng.IntN(len(k.ids))]))
	default:
		key := fmt.Sprint(k.rng.IntN(storyKeys))
		for k.promote(key); k.rng.IntN(8) > 0 && k.end(key); {
			k.promote(key)
		}
	}
}

// insert adds a row, or many of one key in their order.
func (k *keyStory) insert() {
	n, key, late := 1, fmt.Sprint(k.rng.IntN(storyKeys)), k.rng.IntN(4)*k.rng.IntN(60)
	if k.rng.IntN(6) == 0 {
		n, late = 2*maxUpcoming, 0
	}
	for range n {
		k.last++
		t := &task.Task{ID: task.ID{1, byte(k.last >> 8), byte(k.last)}, Type: "a", OrderingKey: key}
		t.ReadyAt = moment.Add(time.Duration(k.last-late) * time.Second)
		state, at := task.Submitted, time.Time{}
		if k.rng.IntN(10) == 0 {
			state, at = task.Waiting, t.ReadyAt
		}
		t.Create(state, moment, at)
		if in, err := k.tx.Insert(k.t.Context(), t); err != nil {
			k.t.Fatal(err)
		} else if in[0].Existing.IsZero() {
			k.ids = append(k.ids, t.ID)
		}
	}
}

func (k *keyStory) get(id task.ID) *task.Task {
	t, err := k.tx.Get(k.t.Context(), id)
	if err != nil {
		k.t.Fatal(err)
	}
	return t
}

// change makes one of the changes of a row that its state and turn allow, or deletes it.
func (k *keyStory) change(t *task.Task) {
	c := task.Change{Ref: t.Ref(), At: moment, Owner: task.ID{1}, OrderingKey: t.OrderingKey}
	switch what := k.rng.IntN(4); {
	case what == 0 && (t.Turn != task.Head || t.State != task.Processing):
		if _, err := k.tx.Delete(k.t.Context(), t.Ref()); err != nil {
			k.t.Fatal(err)
		}
		k.ids = slices.DeleteFunc(k.ids, func(id task.ID) bool { return id == t.ID })
		return
	case t.State == task.Processing:
		c.To, c.Outcome = task.Done, task.Completed
	case t.State == task.Submitted && t.Turn == task.Head:
		c.To = task.Processing
	case t.State == task.Submitted && what == 1: // another seat
		c.To, c.NextEventAt = task.Waiting, moment.Add(time.Duration(k.rng.IntN(3*k.last+1))*time.Second)
		c.ReadyAt = c.NextEventAt
	case t.State == task.Submitted && what == 2:
		c.To, c.Outcome = task.Cancelled, task.Overruled
	case t.State == task.Waiting, t.State == task.Cancelled:
		c.To = task.Submitted
	default:
		return
	}
	if _, err := k.tx.Swap(k.t.Context(), c); err != nil {
		k.t.Fatal(err)
	}
}

// end deletes the head of a key, if it has one.
func (k *keyStory) end(key string) bool {
	for i, id := range k.ids {
		if t := k.get(id); t.OrderingKey == key && t.Turn == task.Head {
			k.ids = slices.Delete(k.ids, i, i+1)
			if _, err := k.tx.Delete(k.t.Context(), t.Ref()); err != nil {
				k.t.Fatal(err)
			}
			return true
		}
	}
	return false
}

// promote gives a key its head, and compares it with the one by all rows.
func (k *keyStory) promote(key string) {
	rows := make([]*task.Task, len(k.ids))
	for i, id := range k.ids {
		rows[i] = k.get(id)
	}
	want, first := task.Candidates(slices.Values(rows), key)
	demote, promote := task.NextHead(want, first)
	if demote {
		want = nil
	}
	if promote {
		want = first
	}
	if _, err := k.tx.Promote(k.t.Context(), key); err != nil {
		k.t.Fatal(err)
	}
	for _, t := range rows {
		if is := k.get(t.ID).Turn == task.Head; t.OrderingKey == key && is != (want != nil && t.ID == want.ID) {
			k.t.Fatalf("of %d rows, %v is head: %t; want the head %v", len(rows), t.ID, is, want)
		}
	}
}

func TestTheNextHeadIsTheRightOneWhateverIsKnownOfItsKey(t *testing.T) {
	for seed := range uint64(30) {
		k := newKeyStory(t, seed)
		for range 50 {
			k.transaction()
		}
	}
}

// backlogOf returns a store with n rows of a key that are behind, which are not in its cache.
func backlogOf(t *testing.T, n int) (*sorted, *DB) {
	t.Helper()
	s, db := filled(t, 0)
	tx := db.Begin(s)
	for i := range n {
		r := &task.Task{ID: task.ID{byte(i + 1)}, Type: "a", OrderingKey: "k", ReadyAt: moment}
		r.Create(task.Submitted, moment, time.Time{})
		if _, err := tx.Insert(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	tx.Committed()
	db.recent = newRecent(recentRows)
	clear(db.upcoming)
	if err := db.findNewest(s); err != nil {
		t.Fatal(err)
	}
	return s, db
}

// skip makes the next row of the key the head, and ends it.
func skip(t *testing.T, tx *Tx) {
	t.Helper()
	heads, err := tx.Promote(t.Context(), "k")
	if err != nil || len(heads) != 1 {
		t.Fatalf("the heads are %v, %v", heads, err)
	}
	gone, err := tx.Swap(t.Context(), task.Change{Ref: heads[0].Ref, To: task.Cancelled, Outcome: task.Overruled, At: moment})
	if err != nil || gone[0] == nil {
		t.Fatalf("%v is not cancelled: %v", heads[0].ID, err)
	}
}

func TestTheRowsBehindAreReadManyAtATime(t *testing.T) {
	s, db := backlogOf(t, 4*maxUpcoming)
	s.gets, s.seen = 0, 0
	for range 4 * maxUpcoming {
		tx := db.Begin(s)
		skip(t, tx)
		tx.Committed()
	}
	// Each is seen as a seat and as a record; each of the four scans but the last sees one more seat. A promotion gets the
	// head that the key has.
	if s.seen != 8*maxUpcoming+3 || s.gets != 4*maxUpcoming {
		t.Errorf("%d rows took %d gets and %d steps", 4*maxUpcoming, s.gets, s.seen)
	}
	s.gets, s.seen = 0, 0
	tx := db.Begin(s)
	if heads, err := tx.Promote(t.Context(), "k"); err != nil || len(heads) > 0 || s.seen > 0 {
		t.Errorf("a key without rows took %d steps: %v, %v", s.seen, heads, err)
	}
	tx.Committed()
}

func TestARowThatIsMissingEndsThePromotion(t *testing.T) {
	for _, missing := range []byte{1, 3} {
		s, db := backlogOf(t, 4)
		delete(s.keys, string(appendIDKey(nil, prefixRecord, task.ID{missing})))
		tx := db.Begin(s)
		for range missing - 1 {
			skip(t, tx)
		}
		if _, err := tx.Promote(t.Context(), "k"); !errors.Is(err, ErrDamaged) || !errors.Is(tx.Err(), ErrDamaged) {
			t.Errorf("without row %d the error is %v, that of the transaction %v", missing, err, tx.Err())
		}
		tx.RolledBack()
	}
}

func TestTheDBKnowsABoundedNumberOfKeysAndRows(t *testing.T) {
	s, db := filled(t, 0)
	tx := db.Begin(s)
	for i := range upcomingKeys + 10 {
		if _, err := tx.Promote(t.Context(), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(db.upcoming); n > upcomingKeys {
		t.Errorf("it knows of %d keys", n)
	}
	tx.Committed()
	s, db = backlogOf(t, 3)
	for i := range 5 * maxUpcoming {
		tx := db.Begin(s)
		if i == 0 {
			skip(t, tx)
		}
		r := &task.Task{ID: task.ID{100, byte(i)}, Type: "a", OrderingKey: "k", ReadyAt: moment.Add(time.Second)}
		r.Create(task.Submitted, moment, time.Time{})
		if _, err := tx.Insert(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		tx.Committed()
	}
	if n := len(db.upcoming["k"].next); n > maxUpcoming {
		t.Errorf("it knows of %d rows of a key", n)
	}
	tx = db.Begin(s)
	for range 2 + 5*maxUpcoming { // it has the others all the same
		skip(t, tx)
	}
	tx.Committed()
}
