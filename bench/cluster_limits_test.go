package bench

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/task"
)

// partners is how many values the keyed limits of the benchmarks below have.
const partners = 50

func ofPartner(count int) func(i int) engine.Request {
	return func(i int) engine.Request {
		return engine.Request{Type: "noop", Headers: map[string]string{"partner": fmt.Sprint(i % count)}, Payload: make([]byte, 256)}
	}
}

// threeLevels are limits of which each counts all tasks of its kind on all nodes.
func threeLevels(isCluster bool) map[string]policy.Limit {
	return map[string]policy.Limit{
		"total":   {Name: "total", Max: 1000, Cluster: isCluster},
		"payouts": {Name: "payouts", Of: "total", Max: 1000, Cluster: isCluster},
		"partner": {Name: "partner", Of: "payouts", Max: 60, Per: "headers.partner", Cluster: isCluster},
	}
}

// BenchmarkClusterLimits measures the throughput of four nodes on one database: without limits, with
// three levels of limits of each node, and with the same limits of the cluster.
func BenchmarkClusterLimits(b *testing.B) {
	for _, work := range []time.Duration{5 * time.Millisecond, 5 * time.Second} {
		for _, kind := range []string{"none", "node", "cluster"} {
			b.Run(fmt.Sprintf("work=%v/limits=%s", work, kind), func(b *testing.B) {
				o := &nodesOn{work: work}
				if kind != "none" {
					o.limits, o.under = threeLevels(kind == "cluster"), []string{"partner"}
				}
				o.start(b, 4, 250)
				o.liveAs(b, 2000, ofPartner(partners))
				orders := o.orders.Load()
				b.ResetTimer()
				o.liveAs(b, b.N, ofPartner(partners))
				b.StopTimer()
				b.ReportMetric(1000*float64(o.orders.Load()-orders)/float64(b.N), "orders/1000-tasks")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// BenchmarkManyValues measures how often permits are ordered and given back for tasks of ten thousand values, of which
// one runs at a time, on three nodes.
func BenchmarkManyValues(b *testing.B) {
	o := &nodesOn{
		limits: map[string]policy.Limit{"partner": {Name: "partner", Max: 1, Per: "headers.partner", Cluster: true}},
		under:  []string{"partner"},
	}
	o.start(b, 3, 250)
	o.liveAs(b, 2000, ofPartner(10_000))
	orders := o.orders.Load()
	b.ResetTimer()
	o.liveAs(b, b.N, ofPartner(10_000))
	b.StopTimer()
	b.ReportMetric(1000*float64(o.orders.Load()-orders)/float64(b.N), "orders/1000-tasks")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(0, "ns/op")
}

// countedOrders counts the orders of permits.
type countedOrders struct {
	coord.Semaphore
	orders *atomic.Int64
}

func (c countedOrders) Order(holder task.ID, orders ...coord.Order) {
	c.orders.Add(int64(len(orders)))
	c.Semaphore.Order(holder, orders...)
}
