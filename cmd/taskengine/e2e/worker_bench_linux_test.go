//go:build !race

package e2e

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/client"
)

// BenchmarkWorkers measures how many tasks a second a worker of each language runs: client, node and worker on the same
// machine, on pebble, from the first submit to the end of the last task, which is durable. of-go is the rate divided by that
// of the worker in Go. Run it with -benchtime 50000x. The SDKs for Node.js and Java have to be built before.
func BenchmarkWorkers(b *testing.B) {
	var ofGo float64
	for _, w := range []struct {
		name   string
		launch launcher
	}{{"go", startWorker}, {"python", startPythonWorker}, {"node", startNodeJSWorker}, {"java", startJavaWorker}} {
		b.Run(w.name, func(b *testing.B) {
			const settings = "storage: {driver: pebble, path: %q}\nnode: {slots: 1024}\nhandlers: {shout: {remote: {slots: 512}}}\ntypes: {shout: {handler: shout}}\n"
			n := start(b, nil, "run", "-c", write(b, "taskengine.yaml", fmt.Sprintf(settings, filepath.Join(diskFolder(b), "data"))))
			w.launch(b, n.api).awaitConnected(b)
			c, err := client.Open([]string{n.api}, client.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			add := func(tasks int) {
				const most = 1000
				var all sync.WaitGroup
				batches := make(chan int)
				for range 4 {
					all.Go(func() {
						for size := range batches {
							batch := make([]client.Request, size)
							for i := range batch {
								batch[i], _ = client.New("shout", "hello") // such a payload is JSON
							}
							if _, err := c.SubmitAll(b.Context(), batch...); err != nil {
								b.Error(err)
							}
						}
					})
				}
				for ; tasks > 0; tasks -= most {
					batches <- min(tasks, most)
				}
				close(batches)
				all.Wait()
				if got := cli(b, nil, "", "--address", n.api, "task", "wait", "--type", "shout", "--timeout", "100s"); got.code != 0 {
					b.Fatal(got.stderr)
				}
			}
			add(5000) // the JVM compiles hot methods
			begin := time.Now()
			b.ResetTimer()
			add(b.N)
			rate := float64(b.N) / time.Since(begin).Seconds()
			if w.name == "go" {
				ofGo = rate
			}
			b.ReportMetric(rate, "lives/s")
			b.ReportMetric(rate/ofGo, "of-go")
		})
	}
}
