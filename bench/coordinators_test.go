//go:build unix

package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/etcd"
	taskzk "github.com/taskengine/taskengine/coord/zk"
	"github.com/taskengine/taskengine/engine"
	"github.com/taskengine/taskengine/internal/etcdtest"
	"github.com/taskengine/taskengine/internal/zktest"
	"github.com/taskengine/taskengine/policy"
	"github.com/taskengine/taskengine/storage/memory"
	"github.com/taskengine/taskengine/task"
)

// granting has the ports that the nodes of this benchmark use.
type granting interface {
	coord.Semaphore
	coord.Rates
	Close() error
}

// coordinator is a server and how many changes it has made.
type coordinator struct {
	connect func() (granting, error)
	writes  func(*testing.B) int64
}

func startEtcd(b *testing.B) coordinator {
	servers, err := etcdtest.Start(1)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = servers.Close() })
	client, err := clientv3.New(clientv3.Config{Endpoints: servers.Endpoints()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	return coordinator{
		func() (granting, error) { return etcd.New(etcd.Options{Endpoints: servers.Endpoints()}) },
		func(b *testing.B) int64 {
			status, err := client.Status(b.Context(), servers.Endpoints()[0])
			if err != nil {
				b.Fatal(err)
			}
			return int64(status.RaftIndex)
		},
	}
}

func startZooKeeper(b *testing.B) coordinator {
	servers, err := zktest.Start(1)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = servers.Close() })
	client, _, err := zk.Connect(servers.Endpoints(), 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	if _, err := client.Create("/count", nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		b.Fatal(err)
	}
	return coordinator{
		func() (granting, error) { return taskzk.New(taskzk.Options{Endpoints: servers.Endpoints()}) },
		func(b *testing.B) int64 {
			stat, err := client.Set("/count", nil, -1)
			if err != nil {
				b.Fatal(err)
			}
			return stat.Mzxid
		},
	}
}

// BenchmarkCoordinatorWrites measures how often a coordinator is changed for each task that starts on one of several nodes
// with tasks of their own: under three levels of limits, for which ten nodes contend, and under a rate for which eight
// wait.
func BenchmarkCoordinatorWrites(b *testing.B) {
	per := policy.Limit{Name: "partner", Of: "total", Max: 3, Per: "headers.partner", Cluster: true}
	for name, start := range map[string]func(*testing.B) coordinator{"etcd": startEtcd, "zookeeper": startZooKeeper} {
		b.Run("coord="+name+"/limits/nodes=10", func(b *testing.B) {
			countWrites(b, start(b), 10, 5*time.Millisecond, map[string]policy.Limit{"total": {Name: "total", Max: 100, Cluster: true}, "partner": per})
		})
		b.Run("coord="+name+"/rate/nodes=8", func(b *testing.B) {
			rate := policy.Limit{Name: "partner", Rate: policy.Rate{Count: 10, Per: time.Second}, Cluster: true}
			countWrites(b, start(b), 8, time.Millisecond, map[string]policy.Limit{"partner": rate})
		})
	}
}

// countWrites runs b.N tasks on nodes, and reports the changes of the coordinator for each of them, beyond those of nodes
// without tasks, which renew their leases.
func countWrites(b *testing.B, c coordinator, nodes int, work time.Duration, limits map[string]policy.Limit) {
	var done atomic.Int64
	all := make(chan bool)
	count := int64(b.N)
	handler := task.HandlerFunc(func(ctx context.Context, _ *task.Task) ([]byte, error) {
		time.Sleep(work)
		if done.Add(1) == count {
			close(all)
		}
		return nil, ctx.Err()
	})
	t := policy.DefaultType()
	t.Limits = []string{"partner"}
	var engines []*engine.Engine
	for i := range nodes {
		p, err := c.connect()
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = p.Close() })
		e, err := engine.Open(b.Context(), engine.Config{
			Name: fmt.Sprint("n", i), Store: memory.New(), Coordinator: coord.Coordinator{Semaphore: p, Rates: p},
			Policies: policy.Set{Slots: 100, Limits: limits, Types: map[string]policy.Type{"noop": t}},
			Handlers: map[string]task.Handler{"noop": handler},
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = e.Close(context.Background()) })
		engines = append(engines, e)
	}
	time.Sleep(time.Second) // the nodes begin
	began, before := time.Now(), c.writes(b)
	time.Sleep(3 * time.Second)
	rest := float64(c.writes(b)-before) / time.Since(began).Seconds()
	before = c.writes(b)
	b.ResetTimer()
	for i := range b.N {
		r := engine.Request{Type: "noop", Headers: map[string]string{"partner": fmt.Sprint(i / nodes % 50)}}
		if _, err := engines[i%nodes].Submit(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
	<-all
	b.StopTimer()
	b.ReportMetric((float64(c.writes(b)-before)-rest*b.Elapsed().Seconds())/float64(b.N), "writes/task")
	b.ReportMetric(rest, "writes/s-at-rest")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
	b.ReportMetric(0, "ns/op")
}
