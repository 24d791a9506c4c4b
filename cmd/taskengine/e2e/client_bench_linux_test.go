//go:build !race

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

// clientBench is a program that adds tasks with a client of another language, and prints at which rate.
type clientBench struct {
	name     string
	inFlight int
	dir      string
	command  []string // the address, the number of tasks, and how many are in flight are added
	env      []string
}

// BenchmarkClients measures how many tasks clients of each language add to a node in a second: client and node on the
// same machine, on pebble, every receipt durable. of-go is the rate divided by that of the Go client with 512 in flight.
// Run it with -benchtime 50000x: it adds so many tasks in each way. The clients for Node.js and Java have to be built
// before. The Java client adds as many tasks first, which do not count, because the JVM compiles hot methods; "cold" adds
// only a few.
func BenchmarkClients(b *testing.B) {
	n := start(b, nil, "run", "-c", write(b, "taskengine.yaml", fmt.Sprintf("storage: {driver: pebble, path: %q}\n", filepath.Join(diskFolder(b), "data"))))
	var ofGo float64
	b.Run("go/in-flight=512", func(b *testing.B) {
		submit := wayInGo(b, n.api)
		task := []*taskenginev1.NewTask{{Type: "shout", Input: &taskenginev1.NewTask_Payload{Payload: wayInPayload}}}
		load := wayInLoad{inFlight: 512, batch: 1, node: n.cmd.Process.Pid, submit: func(ctx context.Context, _ int) error {
			_, err := submit(ctx, &taskenginev1.SubmitRequest{Tasks: task})
			return err
		}}
		ofGo = load.run(b)
	})
	const python, java = "../../../plugins/sdk/python", "../../../plugins/sdk/java"
	env := []string{"PYTHONPATH=.", "PYTHONDONTWRITEBYTECODE=1"}
	for _, c := range []clientBench{
		{"python-coroutines", 512, python, []string{systemPython(), "bench/submit.py", "--way=coroutines"}, env},
		{"python-threads", 64, python, []string{systemPython(), "bench/submit.py", "--way=threads"}, env},
		{"python-each", 512, python, []string{systemPython(), "bench/submit.py", "--way=each"}, env},
		{"node", 512, "../../../plugins/sdk/node", []string{"node", "bench/submit.mjs"}, nil},
		{"java-futures", 512, java, []string{"java", "@target/submit.args", "--way=futures"}, nil},
		{"java-futures-cold", 512, java, []string{"java", "@target/submit.args", "--way=futures", "--warm=512"}, nil},
		{"java-each", 512, java, []string{"java", "@target/submit.args", "--way=each"}, nil},
		{"java-threads", 64, java, []string{"java", "@target/submit.args", "--way=threads"}, nil},
	} {
		b.Run(fmt.Sprintf("%s/in-flight=%d", c.name, c.inFlight), func(b *testing.B) {
			if b.N < c.inFlight {
				return // the first, short run of the package testing
			}
			c.run(b, n.api, ofGo)
		})
	}
}

// run adds b.N tasks, and reports how many there were in a second, and the CPU time of the client for each.
func (c clientBench) run(b *testing.B, address string, ofGo float64) {
	args := append(c.command[1:len(c.command):len(c.command)], "--tasks="+strconv.Itoa(b.N), "--in-flight="+strconv.Itoa(c.inFlight), address)
	cmd := exec.CommandContext(b.Context(), c.command[0], args...)
	cmd.Dir, cmd.Env, cmd.Stderr = c.dir, append(os.Environ(), c.env...), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	var got struct {
		Rate   float64
		Client float64 `json:"cpu_us"`
	}
	if err := json.Unmarshal(out, &got); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(got.Rate, "tasks/s")
	b.ReportMetric(got.Rate/ofGo, "of-go")
	b.ReportMetric(got.Client, "client-us")
}
