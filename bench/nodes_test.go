package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	coordination "github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/postgres"
	"github.com/taskengine/taskengine/storage/postgres/schema"
	"github.com/taskengine/taskengine/task"
)

// nodesOn are nodes on one database, all in this process, so that they share its cores.
type nodesOn struct {
	server  *pgtest.Server
	url     string
	engines []*engine.Engine
	limits  map[string]policy.Limit                      // of the tasks; nil for none
	under   []string                                     // the limits that count the tasks
	work    time.Duration                                // how long a task takes
	began   atomic.Pointer[func(node int, t *task.Task)] // called at every start
	done    atomic.Int64
	orders  atomic.Int64 // of permits
}

func openNodes(tb testing.TB, n, slots int, settings ...string) *nodesOn {
	tb.Helper()
	o := new(nodesOn)
	o.start(tb, n, slots, settings...)
	return o
}

// start starts the database and the nodes.
func (o *nodesOn) start(tb testing.TB, n, slots int, settings ...string) {
	tb.Helper()
	server, err := pgtest.Start(append([]string{"shared_buffers=1GB", "max_wal_size=4GB", "checkpoint_timeout=15min", "wal_compression=lz4", "max_connections=300"}, settings...)...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { must(tb, server.Close()) })
	o.server, o.url = server, server.Database(tb)
	if _, err := schema.Migrate(tb.Context(), o.url, schema.Default); err != nil {
		tb.Fatal(err)
	}
	for i := range n {
		o.engines = append(o.engines, o.open(tb, i, slots))
	}
	for _, e := range o.engines { // until each of them knows all others
		for len(e.Members()) != n {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Error(err)
	}
}

func (o *nodesOn) open(tb testing.TB, i, slots int) *engine.Engine {
	tb.Helper()
	store, err := postgres.Open(tb.Context(), o.url, postgres.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { must(tb, store.Close()) })
	config, err := pgxpool.ParseConfig(o.url)
	if err != nil {
		tb.Fatal(err)
	}
	config.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool { return p.IdleDuration > 10*time.Second }
	pool, err := pgxpool.NewWithConfig(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	c, err := coordination.New(pool, coordination.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { must(tb, c.Close()) })
	typ := policy.DefaultType()
	typ.Limits = o.under
	by := c.Coordinator()
	by.Semaphore = countedOrders{c, &o.orders}
	e, err := engine.Open(tb.Context(), engine.Config{
		Store: store, Coordinator: by, Name: fmt.Sprint("node ", i),
		Policies: policy.Set{Slots: slots, Limits: o.limits, Types: map[string]policy.Type{"noop": typ}},
		Handlers: map[string]task.Handler{"noop": task.HandlerFunc(func(_ context.Context, t *task.Task) ([]byte, error) {
			if began := o.began.Load(); began != nil {
				(*began)(i, t)
			}
			if o.work > 0 {
				time.Sleep(o.work)
			}
			return nil, nil
		})},
		Observer: engine.Observer{Saved: func(_ time.Time, _ task.Ref, t *task.Task) {
			if t != nil && t.State == task.Done {
				o.done.Add(1)
			}
		}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { must(tb, e.Close(context.Background())) })
	return e
}

// live submits n tasks in batches, evenly to all nodes, and waits until they are done.
func (o *nodesOn) live(tb testing.TB, n int) {
	tb.Helper()
	o.liveAs(tb, n, func(int) engine.Request { return engine.Request{Type: "noop", Payload: make([]byte, 256)} })
}

// liveAs is live for tasks that depend on their number.
func (o *nodesOn) liveAs(tb testing.TB, n int, request func(i int) engine.Request) {
	before := o.done.Load()
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	for _, e := range o.engines {
		for range max(1, 4/len(o.engines)) {
			wg.Go(func() {
				const batch = 200
				for end := left.Add(-batch); end > -batch; end = left.Add(-batch) {
					reqs := make([]engine.Request, min(batch, end+batch))
					for i := range reqs {
						reqs[i] = request(int(end) + batch - len(reqs) + i)
					}
					if _, err := e.Submit(tb.Context(), reqs...); err != nil {
						tb.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	for o.done.Load() < before+int64(n) && !tb.Failed() {
		time.Sleep(time.Millisecond)
	}
}

// BenchmarkNodes measures the throughput of whole lives on one database, by the number of nodes.
func BenchmarkNodes(b *testing.B) {
	for _, n := range []int{1, 2, 4} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			o := openNodes(b, n, 1024/n)
			o.live(b, 20_000)
			begin, wal := o.stats(), o.wal(b)
			b.ResetTimer()
			o.live(b, b.N)
			b.StopTimer()
			end := o.stats()
			b.ReportMetric((o.wal(b)-wal)/float64(b.N), "WAL-B/task")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
			b.ReportMetric(100*float64(end.Wasted-begin.Wasted)/float64(end.Grabbed-begin.Grabbed), "%wasted")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// wal returns the number of bytes of WAL so far.
func (o *nodesOn) wal(b *testing.B) (bytes float64) {
	c, err := pgx.Connect(b.Context(), o.url)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(context.Background())
	if err := c.QueryRow(b.Context(), "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8").Scan(&bytes); err != nil {
		b.Fatal(err)
	}
	return bytes
}

func (o *nodesOn) stats() (sum engine.Stats) {
	for _, e := range o.engines {
		s := e.Stats()
		sum.Wasted += s.Wasted
		sum.Grabbed += s.Grabbed
		sum.Stale += s.Stale
	}
	return sum
}

// BenchmarkStartElsewhere measures how long tasks wait that the node which accepts them starts, and tasks
// that another node starts, at 500 of each a second.
func BenchmarkStartElsewhere(b *testing.B) {
	o := openNodes(b, 2, 256)
	var mu sync.Mutex
	due := make(map[string]time.Time)
	waited := make(map[bool][]time.Duration)
	where := make(map[string]int)
	began := func(node int, t *task.Task) {
		now := time.Now()
		mu.Lock()
		defer mu.Unlock()
		where[t.OrderingKey] = node
		if at, ok := due[string(t.Payload)]; ok {
			waited[node == 0] = append(waited[node == 0], now.Sub(at))
		}
	}
	o.began.Store(&began)
	for i := range 64 { // which node owns which key
		if _, err := o.engines[0].Submit(b.Context(), engine.Request{Type: "noop", OrderingKey: fmt.Sprint(i)}); err != nil {
			b.Fatal(err)
		}
	}
	for o.done.Load() < 64 {
		time.Sleep(time.Millisecond)
	}
	b.ResetTimer()
	var wg sync.WaitGroup
	next, n := time.Now(), max(b.N, 256)
	for i := range n {
		next = next.Add(time.Millisecond)
		time.Sleep(time.Until(next))
		at := next
		wg.Go(func() {
			id := fmt.Sprint("task ", i)
			mu.Lock()
			due[id] = at
			mu.Unlock()
			if _, err := o.engines[0].Submit(b.Context(), engine.Request{Type: "noop", OrderingKey: fmt.Sprint(i % 64), Payload: []byte(id)}); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	for o.done.Load() < int64(64+n) {
		time.Sleep(time.Millisecond)
	}
	b.StopTimer()
	for here, name := range map[bool]string{true: "here", false: "elsewhere"} {
		all := waited[here]
		slices.Sort(all)
		if len(all) == 0 {
			b.Fatalf("nothing ran %s", name)
		}
		b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "ms-p50-"+name)
		b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "ms-p99-"+name)
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkIdleNodes counts the statements that an idle node sends.
func BenchmarkIdleNodes(b *testing.B) {
	o := openNodes(b, 3, 256, "shared_preload_libraries=pg_stat_statements")
	pool, err := pgxpool.New(b.Context(), o.url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	calls := func() (n float64) {
		if err := pool.QueryRow(b.Context(), "select sum(calls)::float8 from pg_stat_statements").Scan(&n); err != nil {
			b.Fatal(err)
		}
		return n
	}
	if _, err := pool.Exec(b.Context(), "create extension pg_stat_statements"); err != nil {
		b.Fatal(err)
	}
	time.Sleep(10 * time.Second) // until the start is over
	begin, before := time.Now(), calls()
	time.Sleep(time.Duration(b.N) * time.Second)
	if testing.Verbose() {
		rows, err := pool.Query(b.Context(), "select calls, left(regexp_replace(query, '\\s+', ' ', 'g'), 90) from pg_stat_statements order by calls desc limit 12")
		if err != nil {
			b.Fatal(err)
		}
		for rows.Next() {
			v, err := rows.Values()
			must(b, err)
			b.Log(v...)
		}
	}
	b.ReportMetric((calls()-before)/time.Since(begin).Seconds()/3, "statements/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkHeldTransaction measures the throughput on a database with a million live rows during a
// minute, and then the throughput in the last minute of a time in which another connection holds a
// transaction open: run it with -benchtime=300x for 300 seconds of that.
func BenchmarkHeldTransaction(b *testing.B) {
	o := openNodes(b, 1, 1024)
	pool, err := pgxpool.New(b.Context(), o.url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	later := make([]engine.Request, 1000)
	for i := range later {
		later[i] = engine.Request{Type: "noop", At: time.Now().Add(24 * time.Hour), Payload: make([]byte, 256)}
	}
	for range 1000 {
		if _, err := o.engines[0].Submit(b.Context(), later...); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := pool.Exec(b.Context(), "vacuum analyze"); err != nil {
		b.Fatal(err)
	}
	during := func(d time.Duration) float64 {
		begin, before := time.Now(), o.done.Load()
		for time.Since(begin) < d {
			o.live(b, 20_000)
		}
		return float64(o.done.Load()-before) / time.Since(begin).Seconds()
	}
	during(5 * time.Second)
	free := during(time.Minute)
	tx, err := pool.BeginTx(b.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead}) // which keeps its snapshot
	if err != nil {
		b.Fatal(err)
	}
	var n int
	if err := tx.QueryRow(b.Context(), "select count(*) from taskengine.task").Scan(&n); err != nil { // it has a snapshot
		b.Fatal(err)
	}
	during(time.Duration(b.N)*time.Second - time.Minute)
	held := during(time.Minute)
	must(b, tx.Rollback(context.Background()))
	b.ReportMetric(free, "tasks/s-free")
	b.ReportMetric(held, "tasks/s-held")
	b.ReportMetric(0, "ns/op")
}
