//go:build unix

package pgcells

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/coordtest"
	"github.com/taskengine/taskengine/coord/postgres"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/task"
)

// counter counts statements.
type counter struct{ n atomic.Int64 }

func (c *counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}

func (c *counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// granting has the ports that are measured.
type granting interface {
	coord.Semaphore
	coord.Rates
	Close() error
}

// opening connects nodes to a database, and counts their statements.
type opening func(b *testing.B, url string, c *counter) (connect func() granting)

// stores are coord/postgres and the store of cells.
var stores = []struct {
	name string
	open opening
}{{"functions", openFunctions}, {"cells", openCells}}

func openFunctions(b *testing.B, url string, c *counter) func() granting {
	pgtest.Exec(b, pgtest.Connect(b, url), "CREATE SCHEMA taskengine", postgres.DDL("taskengine"), postgres.Functions("taskengine"))
	return func() granting {
		p, err := pool(url, c)
		if err != nil {
			b.Fatal(err)
		}
		n, err := postgres.New(p, postgres.Options{})
		if err != nil {
			b.Fatal(err)
		}
		return &pooled{n, p}
	}
}

// pooled closes its pool, too.
type pooled struct {
	*postgres.Coord
	pool *pgxpool.Pool
}

func (p *pooled) Close() error {
	err := p.Coord.Close()
	p.pool.Close()
	return err
}

func openCells(b *testing.B, url string, c *counter) func() granting {
	prepare(b, url, "taskengine")
	return func() granting {
		p, err := pool(url, c)
		if err != nil {
			b.Fatal(err)
		}
		return open(p, "taskengine", postgres.DefaultLease, slog.New(slog.DiscardHandler))
	}
}

// BenchmarkSemaphore measures a node alone.
func BenchmarkSemaphore(b *testing.B) {
	for _, s := range stores {
		b.Run("store="+s.name, func(b *testing.B) {
			n := s.open(b, server.Database(b), new(counter))()
			b.Cleanup(func() { _ = n.Close() })
			coordtest.BenchmarkSemaphore(b, n)
		})
	}
}

// BenchmarkPermits measures the costs of permits that are granted and given back again and again, and how evenly nodes get
// them: of one limit that half of the nodes can have, of one of 100 limits, and of ten of 100 limits at once.
func BenchmarkPermits(b *testing.B) {
	for _, nodes := range []int{1, 4, 8} {
		for _, l := range []load{{"hot", 1, 1, (nodes + 1) / 2}, {"many", 100, 1, nodes}, {"batch", 100, 10, nodes}} {
			for _, s := range stores {
				b.Run(fmt.Sprintf("limits=%s/nodes=%d/store=%s", l.name, nodes, s.name), func(b *testing.B) {
					measure(b, l, nodes, s.open)
				})
			}
		}
	}
}

// BenchmarkRates measures how many statements the draws of nodes need that use one rate.
func BenchmarkRates(b *testing.B) {
	for _, nodes := range []int{1, 4, 8} {
		for _, interval := range []time.Duration{10 * time.Microsecond, 10 * time.Millisecond} {
			for _, s := range stores {
				b.Run(fmt.Sprintf("interval=%v/nodes=%d/store=%s", interval, nodes, s.name), func(b *testing.B) {
					draw(b, interval, nodes, s.open)
				})
			}
		}
	}
}

// draw draws b.N tokens in all.
func draw(b *testing.B, interval time.Duration, nodes int, open opening) {
	c := start(b, nodes, open)
	var got atomic.Int64
	var running sync.WaitGroup
	before := c.costs(b)
	b.ResetTimer()
	for _, n := range c.nodes {
		running.Go(func() {
			for got.Load() < int64(b.N) {
				drawn, err := n.Draw(b.Context(), coord.Draw{Name: "rate", Interval: interval, Burst: 1, Tokens: 1})
				if err != nil {
					b.Error(err)
					return
				}
				got.Add(int64(drawn[0].Tokens))
				time.Sleep(drawn[0].Next)
			}
		})
	}
	running.Wait()
	b.StopTimer()
	c.costs(b).report(b, before, "token")
	c.close(b, b.N, "token")
}

// load is a kind of load.
type load struct {
	name   string
	limits int // how many there are
	at     int // how many of them a node orders at once
	most   int // the permits of each
}

// measure takes b.N permits in all.
func measure(b *testing.B, l load, nodes int, open opening) {
	c := start(b, nodes, open)
	var users []*user
	for _, n := range c.nodes {
		users = append(users, newUser(b, n))
	}
	const first = 20 // how often each node takes permits before it is measured
	take(users, l, first*nodes*l.at)
	for _, u := range users {
		u.waits = nil
	}
	before := c.costs(b)
	b.ResetTimer()
	take(users, l, b.N)
	b.StopTimer()
	c.costs(b).report(b, before, "permit")
	var waits []time.Duration
	fewest := b.N
	for _, u := range users {
		waits, fewest = append(waits, u.waits...), min(fewest, len(u.waits))
		u.end()
	}
	slices.Sort(waits)
	b.ReportMetric(float64(waits[len(waits)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(100*float64(fewest*nodes)/float64(len(waits)), "%-of-share")
	c.close(b, b.N+first*nodes*l.at, "permit")
}

// take has users take a number of permits in all.
func take(users []*user, l load, permits int) {
	var taken atomic.Int64
	var running sync.WaitGroup
	for _, u := range users {
		running.Go(func() {
			for taken.Add(int64(l.at)) <= int64(permits+l.at-1) {
				u.take(l)
			}
		})
	}
	running.Wait()
}

// cluster is nodes on a database.
type cluster struct {
	nodes      []granting
	statements *counter
	conn       *pgx.Conn
}

func start(b *testing.B, nodes int, open opening) *cluster {
	url := server.Database(b)
	c := &cluster{statements: new(counter)}
	connect := open(b, url, c.statements)
	for range nodes {
		c.nodes = append(c.nodes, connect())
	}
	c.conn = pgtest.Connect(b, url)
	return c
}

// close closes the nodes, and reports how many rows they have written for each thing that they did.
func (c *cluster) close(b *testing.B, things int, thing string) {
	b.ReportMetric(0, "ns/op")
	for _, n := range c.nodes {
		_ = n.Close()
	}
	for ask(b, c.conn, "SELECT count(*) FROM pg_stat_activity WHERE application_name = '"+nodeName+"'") > 0 {
		time.Sleep(time.Millisecond) // a process of the server reports its statistics at its end
	}
	const written = "SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0)::bigint FROM pg_stat_user_tables"
	b.ReportMetric(float64(ask(b, c.conn, written))/float64(things), "rows/"+thing)
}

// costs are sums since the start of a cluster.
type costs struct {
	statements, wal int64
	server, nodes   time.Duration // of CPU
}

func (c *cluster) costs(b *testing.B) costs {
	b.Helper()
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		b.Fatal(err)
	}
	return costs{
		c.statements.n.Load(), ask(b, c.conn, "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"),
		cpuOf(b, c.conn), time.Duration(own.Utime.Nano() + own.Stime.Nano()),
	}
}

// report reports the costs of each of b.N things since some time.
func (c costs) report(b *testing.B, since costs, thing string) {
	n := float64(b.N)
	b.ReportMetric(n/b.Elapsed().Seconds(), thing+"s/s")
	b.ReportMetric(float64(c.statements-since.statements)/n, "statements/"+thing)
	b.ReportMetric(float64(c.wal-since.wal)/n, "WAL-B/"+thing)
	b.ReportMetric(float64((c.server-since.server).Microseconds())/n, "server-µs/"+thing)
	b.ReportMetric(float64((c.nodes-since.nodes).Microseconds())/n, "node-µs/"+thing)
}

// user is one holder that takes permits and gives them back.
type user struct {
	node   granting
	id     task.ID
	number uint64
	heard  chan []coord.Holding
	waits  []time.Duration
	end    func()
}

func newUser(b *testing.B, n granting) *user {
	u := &user{node: n, heard: make(chan []coord.Holding, 1000)}
	_, _ = rand.Read(u.id[:])
	ctx, cancel := context.WithCancel(b.Context())
	returned := make(chan error, 1)
	go func() { returned <- n.Hold(ctx, u.id, func(all []coord.Holding) { u.heard <- all }) }()
	<-u.heard
	u.end = func() {
		cancel()
		if err := <-returned; err != nil {
			b.Error(err)
		}
	}
	return u
}

// take takes permits of different limits, and gives them back when it has all.
func (u *user) take(l load) {
	names := mathrand.Perm(l.limits)[:l.at]
	for want := 1; want >= 0; want-- {
		u.number++
		orders := make([]coord.Order, l.at)
		for i, n := range names {
			orders[i] = coord.Order{Name: fmt.Sprint("limit/", n), Number: u.number, Want: want, Max: l.most}
		}
		start := time.Now()
		u.node.Order(u.id, orders...)
		waiting := map[string]bool{}
		for _, o := range orders {
			waiting[o.Name] = true
		}
		for len(waiting) > 0 {
			for _, h := range <-u.heard {
				if h.Number == u.number && h.Held == want {
					delete(waiting, h.Name)
				}
			}
		}
		if want == 1 {
			u.waits = append(u.waits, time.Since(start))
		}
	}
}

func ask(b *testing.B, conn *pgx.Conn, query string) (n int64) {
	b.Helper()
	if err := conn.QueryRow(b.Context(), query).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}

// cpuOf returns the CPU time of the processes of the server, where the system has it in /proc.
func cpuOf(b *testing.B, conn *pgx.Conn) (sum time.Duration) {
	b.Helper()
	rows, _ := conn.Query(b.Context(), "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		b.Fatal(err)
	}
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
		if fields := strings.Fields(string(text)); err == nil && len(fields) > 0 {
			ns, _ := strconv.ParseInt(fields[0], 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum
}
