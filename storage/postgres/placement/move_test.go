package placement_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/placement"
	"github.com/taskengine/taskengine/task"
)

func set(t *testing.T, text string) task.Shards {
	t.Helper()
	s, err := task.ParseShards(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var idsOfShards = task.NewIDs([32]byte{42})

// rowOf returns a submitted row of a shard.
func rowOf(shard uint16) *task.Task {
	t := &task.Task{ID: idsOfShards.NextIn(moment, shard), Type: "mail", Priority: task.DefaultPriority, Shard: shard, Payload: []byte("hello")}
	t.Create(task.Submitted, moment, time.Time{})
	return t
}

func TestTasksOfAShardThatIsElsewhereCannotBeChanged(t *testing.T) {
	ps := parts(t, "a", "b")
	here, there := rowOf(0), rowOf(200)
	if _, err := ps[0].Insert(t.Context(), here, there); err != nil {
		t.Fatal(err)
	}
	divide(t, ps...)
	if _, err := ps[1].Insert(t.Context(), rowOf(200)); !errors.Is(err, storage.ErrElsewhere) {
		t.Errorf("an insert: %v", err)
	}
	if err := placement.Move(t.Context(), ps[0], ps[1], set(t, "128-255"), nil); err != nil {
		t.Fatal(err)
	}
	grab := func(r *task.Task) task.Change { return task.Change{Ref: r.Ref(), To: task.Processing, At: moment} }
	if got, err := ps[0].Swap(t.Context(), grab(here), grab(there)); err != nil || got[0] == nil || got[1] != nil {
		t.Errorf("grabs in a: %v, %v", got, err)
	}
	if _, err := ps[0].Commit(t.Context(), &storage.Batch{Insert: []*task.Task{rowOf(0), rowOf(200)}}).Wait(); !errors.Is(err, storage.ErrElsewhere) {
		t.Errorf("a batch for both in a: %v", err)
	}
	if got, err := ps[1].Swap(t.Context(), grab(there)); err != nil || got[0] == nil {
		t.Errorf("a grab in b: %v, %v", got, err)
	}
}

// crowd inserts tasks of all kinds and shards, and returns them.
func crowd(t *testing.T, s *postgres.Store, n int) map[task.ID]*task.Task {
	t.Helper()
	var rows []*task.Task
	for i := range n {
		r := rowOf(uint16(i))
		r.State = task.States()[i%len(task.States())]
		r.Version, r.UpdatedAt = uint64(1+i%3), moment.Add(time.Duration(i)*time.Second)
		r.NextEventAt = r.UpdatedAt.Add(240 * time.Hour)
		r.Headers = map[string]string{"n": fmt.Sprint(i)}
		if i%5 == 0 {
			r.Key = fmt.Sprint("key ", i)
			r.Shard, _ = task.BoundShard(r.Type, r.Key, "")
			r.ID = idsOfShards.NextIn(moment, r.Shard)
		}
		if r.State == task.Processing {
			r.Owner, r.StartedAt, r.Attempt = task.ID{1}, moment, 1
			r.Notes = task.NewNotes(task.Progress{}, []byte("half"))
		}
		rows = append(rows, r)
	}
	done, err := s.Insert(t.Context(), rows...)
	if err != nil || slices.ContainsFunc(done, func(in storage.Inserted) bool { return !in.Created() }) {
		t.Fatal(err)
	}
	return content(t, s)
}

// content returns all rows, without the numbers that the database gave them.
func content(t *testing.T, ss ...*postgres.Store) map[task.ID]*task.Task {
	t.Helper()
	all := make(map[task.ID]*task.Task)
	for _, s := range ss {
		if err := s.Export(t.Context(), func(string, []byte) error { return nil }, func(r *task.Task) error {
			if all[r.ID] != nil {
				return fmt.Errorf("task %v is there twice", r.ID)
			}
			r.Seq = 0
			all[r.ID] = r
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func same(t *testing.T, got, want map[task.ID]*task.Task) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("there are %d tasks, want %d", len(got), len(want))
	}
	for id, w := range want {
		if !reflect.DeepEqual(got[id], w) {
			t.Errorf("a task is\n%+v, want\n%+v", got[id], w)
		}
	}
}

func TestAMoveTakesEverythingAlong(t *testing.T) {
	ps := parts(t, "a", "b")
	all := crowd(t, ps[0].Store, 2500)
	divide(t, ps...)
	var at placement.Moved
	shards := set(t, "3,100-255")
	if err := placement.Move(t.Context(), ps[0], ps[1], shards, func(m placement.Moved) { at = m }); err != nil {
		t.Fatal(err)
	}
	moved := maps.Clone(all)
	maps.DeleteFunc(moved, func(id task.ID, _ *task.Task) bool { return !shards.Has(id.Shard()) })
	rest := maps.Clone(all)
	maps.DeleteFunc(rest, func(id task.ID, _ *task.Task) bool { return shards.Has(id.Shard()) })
	same(t, content(t, ps[1].Store), moved)
	same(t, content(t, ps[0].Store), rest)
	if at.Packed != len(moved) || at.Delivered != len(moved) {
		t.Errorf("it said %+v of %d", at, len(moved))
	}
	for _, r := range moved { // with their keys
		if r.Key == "" {
			continue
		}
		again := rowOf(r.ID.Shard())
		again.Key = r.Key
		if got, err := ps[1].Insert(t.Context(), again); err != nil || got[0].Existing != r.ID {
			t.Fatalf("the key of %v is %v's, %v", r.ID, got[0].Existing, err)
		}
	}
	var keys int
	if err := ps[0].Pool().QueryRow(t.Context(), "select count(*) from taskengine.key k where not exists (select from taskengine.task t where t.id = k.id) and not exists (select from taskengine.ended t where t.id = k.id)").Scan(&keys); err != nil || keys != 0 {
		t.Errorf("%d keys of tasks are left that are gone, %v", keys, err)
	}
	if err := placement.Move(t.Context(), ps[1], ps[0], shards, nil); err != nil { // and back
		t.Fatal(err)
	}
	same(t, content(t, ps[0].Store), all)
	if home, err := ps[1].Holdings(t.Context()); err != nil || home != (storage.Holdings{Revision: home.Revision}) {
		t.Errorf("b holds %+v, %v", home, err)
	}
}

// While a shard is on its way, some of the rows of a key are packed already. The others change no more, and do not keep
// keys of other shards from being promoted.
func TestTheTasksOfAnOrderingKeyMoveWithTheirTurns(t *testing.T) {
	ps := parts(t, "a", "b")
	divide(t, ps...)
	insert := func(n int, key string) (ts []*task.Task) {
		for i := range n {
			r := rowOf(task.ShardOf(key))
			r.OrderingKey, r.Turn, r.ReadyAt = key, task.Behind, moment.Add(time.Duration(i)*time.Second)
			ts = append(ts, r)
		}
		slices.SortFunc(ts, func(a, b *task.Task) int { return a.ID.Compare(b.ID) })
		if _, err := ps[0].Insert(t.Context(), ts...); err != nil {
			t.Fatal(err)
		}
		return ts
	}
	var keys []string
	for n := 0; len(keys) < 2; n++ {
		key := fmt.Sprint("key ", n)
		if home, err := ps[0].Holdings(t.Context()); err != nil {
			t.Fatal(err)
		} else if home.Owned.Has(task.ShardOf(key)) && (len(keys) == 0 || task.ShardOf(key) != task.ShardOf(keys[0])) {
			keys = append(keys, key)
		}
	}
	leaves := insert(1500, keys[0])
	slices.SortFunc(leaves, func(a, b *task.Task) int { return a.Seat().Compare(b.Seat()) })
	heads, err := ps[0].Promote(t.Context(), keys[0])
	if err != nil || len(heads) != 1 {
		t.Fatalf("heads %v, %v", heads, err)
	}
	stays := insert(1, keys[1])
	shards := set(t, fmt.Sprint(task.ShardOf(keys[0])))
	ctx, cancel := context.WithCancel(t.Context())
	if err := placement.Move(ctx, ps[0], ps[1], shards, func(placement.Moved) { cancel() }); err == nil {
		t.Fatal("the move was not interrupted")
	}
	var left int
	if err := ps[0].Pool().QueryRow(t.Context(), "select count(*) from taskengine.task where id <> $1 and $2 not in (select id from taskengine.task)",
		stays[0].ID, heads[0].ID).Scan(&left); err != nil || left == 0 {
		t.Fatalf("%d rows without their head are left, %v", left, err)
	}
	heads, err = ps[0].Promote(t.Context(), keys...)
	if err != nil || len(heads) != 1 || heads[0].ID != stays[0].ID {
		t.Errorf("heads %v, %v", heads, err)
	}
	if err := placement.Move(t.Context(), ps[0], ps[1], shards, nil); err != nil {
		t.Fatal(err)
	}
	rows, err := ps[1].ListKey(t.Context(), keys[0], nil, len(leaves))
	if err != nil || rows.Head == nil || rows.Head.ID != leaves[0].ID || len(rows.Behind) != len(leaves)-1 {
		t.Errorf("there the head is %v, and %d are behind, %v", rows.Head, len(rows.Behind), err)
	}
	if page, err := ps[1].Headless(t.Context(), "", 9); err != nil || len(page.Keys) > 0 {
		t.Errorf("there keys have no head: %v, %v", page, err)
	}
}

func TestAShardThatHasLeftAndComeBackIsSeenByTheRevisionOfWhatADatabaseHolds(t *testing.T) {
	ps := parts(t, "a", "b")
	divide(t, ps...)
	read := func(p placement.Database) storage.Holdings {
		home, err := p.Holdings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return home
	}
	before, shards := read(ps[0]), set(t, "7")
	crowd(t, ps[0].Store, 10)
	if again := read(ps[0]); again != before {
		t.Errorf("nothing was moved, and %+v has become %+v", before, again)
	}
	if err := errors.Join(placement.Move(t.Context(), ps[0], ps[1], shards, nil), placement.Move(t.Context(), ps[1], ps[0], shards, nil)); err != nil {
		t.Fatal(err)
	}
	after := read(ps[0])
	if after.Owned != before.Owned || after.Revision == before.Revision {
		t.Errorf("before it held %s, revision %d, and then %s, revision %d", &before.Owned, before.Revision, &after.Owned, after.Revision)
	}
}

func TestAMoveThatWasInterruptedIsFinishedByTheNext(t *testing.T) {
	ps := parts(t, "a", "b", "c")
	all := crowd(t, ps[0].Store, 2500)
	divide(t, ps...)
	shards := set(t, "0-199")
	interrupted := 0
	for after, done := 1, false; !done; after++ {
		ctx, cancel := context.WithCancel(t.Context())
		heard := 0
		err := placement.Move(ctx, ps[0], ps[1], shards, func(placement.Moved) {
			if heard++; heard == after {
				cancel()
			}
		})
		cancel()
		if done = err == nil; !done {
			interrupted++
			if home, err := ps[0].Holdings(t.Context()); err != nil {
				t.Fatal(err)
			} else if !home.Migrating.IsEmpty() {
				if err := placement.Move(t.Context(), ps[0], ps[2], shards, nil); err == nil || !strings.Contains(err.Error(), "on the way from there to b") {
					t.Errorf("to another database: %v", err)
				}
			}
		}
		if after%3 == 0 && !done { // from the start
			if err := placement.Move(t.Context(), ps[0], ps[1], shards, nil); err != nil {
				t.Fatal(err)
			}
			if err := placement.Move(t.Context(), ps[1], ps[0], shards, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if interrupted < 5 {
		t.Errorf("it was interrupted %d times", interrupted)
	}
	same(t, content(t, ps[0].Store, ps[1].Store), all)
	for i, want := range []string{"200-255", "0-199", ""} {
		if home, err := ps[i].Holdings(t.Context()); err != nil || home.Owned.String() != want || !home.Migrating.IsEmpty() {
			t.Errorf("%s holds %s, and %s is leaving, %v", ps[i].Name, &home.Owned, &home.Migrating, err)
		}
	}
}

func TestMovesOfTheSameShardsAtOnceDoNotLoseAny(t *testing.T) {
	ps := parts(t, "a", "b")
	all := crowd(t, ps[0].Store, 5000)
	divide(t, ps...)
	shards := set(t, "0-199")
	for range 3 {
		var movers sync.WaitGroup
		for range 3 {
			movers.Go(func() {
				if err := placement.Move(t.Context(), ps[0], ps[1], shards, nil); err != nil && !strings.Contains(err.Error(), "another move") {
					t.Error(err)
				}
			})
		}
		movers.Wait()
		same(t, content(t, ps[0].Store, ps[1].Store), all)
		if home, err := ps[1].Holdings(t.Context()); err != nil || home.Owned != shards {
			t.Errorf("b holds %s, %v", &home.Owned, err)
		}
		if err := placement.Move(t.Context(), ps[1], ps[0], shards, nil); err != nil {
			t.Fatal(err)
		}
	}
	same(t, content(t, ps[0].Store), all)
}

// A node locks tasks in the order of its own, and a move in that of their ids.
func TestAMoveGoesOnAfterADeadlock(t *testing.T) {
	ps := parts(t, "a", "b")
	all := crowd(t, ps[0].Store, 2500)
	divide(t, ps...)
	url := ps[0].Pool().Config().ConnString()
	observer := pgtest.Connect(t, url)
	// The server ends the request that finds the deadlock: the first that has waited for so long. It is to be that of the move,
	// which must not look before the node waits, also on a busy machine.
	if _, err := observer.Exec(t.Context(), fmt.Sprintf("alter database %s set deadlock_timeout = '5s'", ps[0].Pool().Config().ConnConfig.Database)); err != nil {
		t.Fatal(err)
	}
	ps[0].Pool().Reset()
	isWaiting := func() (is bool, err error) {
		err = observer.QueryRow(t.Context(), "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')").Scan(&is)
		return is, err
	}
	tx, err := pgtest.Connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "set local deadlock_timeout = '1h'"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	lock := func(order string) error {
		_, err := tx.Exec(t.Context(), "select id from taskengine.task order by id "+order+" limit 1 for update")
		return err
	}
	// The move has packed its first tasks. Then it waits for the last of its next ones, and the node for the first.
	called, err := overtaken(t, ps[0], ps[1], task.AllShards(), 1, func() {
		if err := lock("desc"); err != nil {
			t.Fatal(err)
		}
		go func() {
			is, err := isWaiting()
			for begin := time.Now(); !is && err == nil; is, err = isWaiting() {
				if time.Since(begin) > 3*time.Minute {
					err = errors.New("the move does not wait for the node")
					break
				}
				time.Sleep(time.Millisecond)
			}
			if err == nil {
				err = lock("asc")
			}
			ended <- errors.Join(err, tx.Rollback(t.Context()))
		}()
	})
	if err != nil || !called {
		t.Errorf("the move ends with %v; called: %t", err, called)
	}
	if called {
		if err := <-ended; err != nil {
			t.Errorf("the node ends with %v, and the move was to be rolled back", err)
		}
	}
	same(t, content(t, ps[0].Store, ps[1].Store), all)
}

func TestAMoveNeedsLittleOfItsConnections(t *testing.T) {
	for name, parameter := range map[string]string{
		"one to each database":   "pool_max_conns=1",
		"at any isolation level": "default_transaction_isolation=serializable",
	} {
		t.Run(name, func(t *testing.T) {
			ps := parts(t, "a", "b")
			for i, p := range ps {
				s, err := postgres.Open(t.Context(), p.Pool().Config().ConnString()+"&"+parameter, postgres.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				ps[i].Store = s
			}
			all := crowd(t, ps[0].Store, 100)
			divide(t, ps...)
			if err := placement.Move(t.Context(), ps[0], ps[1], set(t, "3,100-255"), nil); err != nil {
				t.Fatal(err)
			}
			same(t, content(t, ps[0].Store, ps[1].Store), all)
		})
	}
}

// overtaken moves shards, and calls overtake when the move has reported its progress n times, unless
// the move locks the tables then. It reports whether overtake was called.
func overtaken(t *testing.T, from, to placement.Database, shards task.Shards, n int, overtake func()) (called bool, err error) {
	t.Helper()
	heard, delivered := 0, 0
	err = placement.Move(t.Context(), from, to, shards, func(at placement.Moved) {
		if at.Delivered > delivered { // in the transaction that delivers
			delivered = at.Delivered
			return
		}
		if heard++; heard == n {
			called = true
			overtake()
		}
	})
	return called, err
}

func TestAMoveThatIsOvertakenByAnotherLeavesTheShardsWhereThatHasPutThem(t *testing.T) {
	ps := parts(t, "a", "b")
	all := crowd(t, ps[0].Store, 600)
	divide(t, ps...)
	shards := set(t, "0-199")
	move := func(from, to int) {
		t.Helper()
		if err := placement.Move(t.Context(), ps[from], ps[to], shards, nil); err != nil {
			t.Fatal(err)
		}
	}
	for name, overtake := range map[string]func(){
		"there":          func() { move(0, 1) },
		"there and back": func() { move(0, 1); move(1, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			for n, called := 1, true; called; n++ {
				var err error
				called, err = overtaken(t, ps[0], ps[1], shards, n, overtake)
				if err != nil && (name == "there" || !strings.Contains(err.Error(), "another move")) {
					t.Errorf("overtaken at %d: %v", n, err)
				}
				same(t, content(t, ps[0].Store, ps[1].Store), all)
				at := 1
				if err != nil {
					at = 0
				}
				if home, err := ps[at].Holdings(t.Context()); err != nil || home.Owned.Without(&shards) == home.Owned {
					t.Errorf("overtaken at %d: %s holds %s, %v", n, ps[at].Name, &home.Owned, err)
				}
				if _, err := ps[1-at].Insert(t.Context(), rowOf(0)); !errors.Is(err, storage.ErrElsewhere) {
					t.Fatalf("overtaken at %d: a task of another shard than %s holds: %v", n, ps[1-at].Name, err)
				}
				if at == 1 {
					move(1, 0)
				}
				if n == 1 && !called {
					t.Fatal("it was not overtaken: this test shows nothing")
				}
			}
		})
	}
}

func TestShardsThatAreNotThereAreNotMoved(t *testing.T) {
	ps := parts(t, "a", "b", "c")
	if err := placement.Move(t.Context(), ps[0], ps[1], set(t, "7"), nil); err == nil || !strings.Contains(err.Error(), "not divided") {
		t.Errorf("of a database that was not divided: %v", err)
	}
	divide(t, ps...)
	if err := placement.Move(t.Context(), ps[0], ps[1], set(t, "7,200"), nil); err == nil || !strings.Contains(err.Error(), "200: they are not there") {
		t.Errorf("of one that has only some: %v", err)
	}
	if home, err := ps[0].Holdings(t.Context()); err != nil || home.Owned.String() != "0-84" {
		t.Errorf("a holds %s, %v", &home.Owned, err)
	}
}

func TestATaskIsNotMovedAwayFromItsKey(t *testing.T) {
	ps := parts(t, "a", "b")
	home := task.ShardOf("mail\x00k")
	stray := rowOf(home ^ 128)
	stray.Key = "k"
	if _, err := ps[0].Insert(t.Context(), stray); err != nil {
		t.Fatal(err)
	}
	divide(t, ps...)
	for _, shards := range []string{"0-127", "128-255"} {
		if err := placement.Move(t.Context(), ps[0], ps[1], set(t, shards), nil); err == nil || !strings.Contains(err.Error(), "1 tasks have a key and an id of another shard") {
			t.Errorf("shards %s: %v", shards, err)
		}
	}
	if err := placement.Move(t.Context(), ps[0], ps[1], task.AllShards(), nil); err != nil {
		t.Fatal(err)
	}
	if got, err := ps[1].Get(t.Context(), stray.ID); err != nil || got.Key != "k" {
		t.Errorf("it is there with the key %q, %v", got.Key, err)
	}
}

// Engines add no tasks that could cause this.
func TestAKeyThatIsTakenWhereATaskGoesStaysWhereItIs(t *testing.T) {
	ps := parts(t, "a", "b")
	home := task.ShardOf("mail\x00k")
	old := rowOf(home)
	old.Key = "k"
	if _, err := ps[0].Insert(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	divide(t, ps...)
	other := home ^ 128
	if err := placement.Move(t.Context(), ps[0], ps[1], set(t, fmt.Sprint(other)), nil); err != nil {
		t.Fatal(err)
	}
	young := rowOf(other)
	young.Key = "k"
	if _, err := ps[1].Insert(t.Context(), young); err != nil {
		t.Fatal(err)
	}
	if err := placement.Move(t.Context(), ps[0], ps[1], set(t, fmt.Sprint(home)), nil); err != nil {
		t.Fatal(err)
	}
	if got, err := ps[1].Get(t.Context(), old.ID); err != nil || got.Key != "" {
		t.Errorf("it is there with the key %q, %v", got.Key, err)
	}
}

func TestTasksAddedFromSQLAreOfAShardThatIsThere(t *testing.T) {
	ps := parts(t, "a", "b")
	before := mustAdd(t, ps[0].Pool(), "'mail', key => 'k'")
	again := mustAdd(t, ps[0].Pool(), "'mail', ordering_key => 'o'")
	if _, err := ps[0].Get(t.Context(), again.id); err != nil {
		t.Error(err)
	}
	if want := task.ShardOf("mail\x00k"); before.id.Shard() != want {
		t.Errorf("a task with a key is of shard %d, want %d", before.id.Shard(), want)
	}
	if want := task.ShardOf("o"); again.id.Shard() != want {
		t.Errorf("a task with an ordering key is of shard %d, want %d", again.id.Shard(), want)
	}
	divide(t, ps...)
	if err := placement.Move(t.Context(), ps[0], ps[1], set(t, "17"), nil); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if got := mustAdd(t, ps[1].Pool(), "'mail'"); got.id.Shard() != 17 {
			t.Errorf("it is of shard %d", got.id.Shard())
		}
	}
	for args, want := range map[string]string{
		"'mail', key => 'k'":                           "cannot see whether another has one of this key",
		"'mail', ordering_key => 'k'":                  "tasks of this ordering key are in another database",
		fmt.Sprintf("'mail', id => '%v'", rowOf(3).ID): "belongs to another database",
	} {
		if _, err := add(t.Context(), ps[1].Pool(), args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("add(%s): %v", args, err)
		}
	}
	if got := mustAdd(t, ps[1].Pool(), fmt.Sprintf("'mail', id => '%v'", rowOf(17).ID)); !got.created {
		t.Error("an id of a shard that is there is refused")
	}
	for n := 0; ; n++ {
		key := fmt.Sprint("key ", n)
		if task.ShardOf(key) != 17 {
			continue
		}
		if got := mustAdd(t, ps[1].Pool(), fmt.Sprintf("'mail', ordering_key => '%s'", key)); got.id.Shard() != 17 {
			t.Errorf("the id of a task with an ordering key of a shard that is there is of shard %d", got.id.Shard())
		}
		args := fmt.Sprintf("'mail', ordering_key => '%s', key => 'k'", key)
		within := mustAdd(t, ps[1].Pool(), args)
		if !within.created || within.id.Shard() != 17 {
			t.Errorf("a key within an ordering key: %+v", within)
		}
		for i, p := range []placement.Database{ps[0], ps[1]} { // the key moves with its shard, and back
			if err := placement.Move(t.Context(), ps[1-i], ps[i], set(t, "17"), nil); err != nil {
				t.Fatal(err)
			}
			if again := mustAdd(t, p.Pool(), args); again.created || again.id != within.id {
				t.Errorf("after a move the key is that of %+v", again)
			}
			row := rowOf(17)
			row.Key, row.OrderingKey = "k", key
			if in, err := p.Insert(t.Context(), row); err != nil || in[0].Existing != within.id {
				t.Errorf("after a move the key is that of %+v, %v", in, err)
			}
		}
		if err := placement.Move(t.Context(), ps[0], ps[1], set(t, "18"), nil); err != nil {
			t.Fatal(err)
		}
		_, err := add(t.Context(), ps[1].Pool(), fmt.Sprintf("'mail', ordering_key => '%s', id => '%v'", key, rowOf(18).ID))
		if err == nil || !strings.Contains(err.Error(), "of different shards") {
			t.Errorf("an id of another shard than that of the ordering key: %v", err)
		}
		break
	}
}
