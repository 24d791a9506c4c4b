//go:build !race

package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// BenchmarkOpenPages measures how long tasks wait for their start while a thousand pages of the dashboard are open, in turns with none: the median of the
// 99th percentiles with pages, without, and of their ratios. Each page has a connection of its own and asks as its script does. The program that opens
// them has the lowest priority, since people open pages on other machines. node-cpu is the processor time of the node in a second. Run it with
// -benchtime 1x.
func BenchmarkOpenPages(b *testing.B) {
	n, token, notes := startForPages(b)
	load := beginLoad(b, n.api, token, notes)
	defer load.end()
	node := strconv.Itoa(n.cmd.Process.Pid)
	time.Sleep(5 * time.Second)
	var with, without []time.Duration
	var ratios, requests, cpus, cpusAlone []float64
	for range sizeRounds {
		pages := openAll(b, n.api, token)
		time.Sleep(pagesPeriod / 2) // until they ask less often, since they are many
		begin, before, answers := time.Now(), cpuOf(b, node), pages.answers(b)
		time.Sleep(pagesPeriod)
		end := time.Now()
		cpus = append(cpus, (cpuOf(b, node)-before).Seconds()/end.Sub(begin).Seconds())
		requests = append(requests, float64(pages.answers(b)-answers)/end.Sub(begin).Seconds())
		pages.end(b)
		time.Sleep(time.Second)
		alone, before := time.Now(), cpuOf(b, node)
		time.Sleep(pagesPeriod)
		over := time.Now()
		cpusAlone = append(cpusAlone, (cpuOf(b, node)-before).Seconds()/over.Sub(alone).Seconds())
		one, other := quantileOf(load.between(b, begin, end), 0.99), quantileOf(load.between(b, alone, over), 0.99)
		with, without, ratios = append(with, one), append(without, other), append(ratios, float64(one)/float64(other))
	}
	reportBeside(b, with, without, ratios)
	b.ReportMetric(medianOf(requests), "requests/s")
	b.ReportMetric(medianOf(cpus), "node-cpu")
	b.ReportMetric(medianOf(cpusAlone), "node-cpu-alone")
}

// BenchmarkIdlePage measures what part of a core the node takes for an open overview when there is nothing to do: the least of some periods, since the node
// does other things, too. No other page has the same address, so none shares a refresh with it. Run it with -benchtime 1x.
func BenchmarkIdlePage(b *testing.B) {
	n, token, _ := startForPages(b)
	node := strconv.Itoa(n.cmd.Process.Pid)
	time.Sleep(5 * time.Second)
	const pages, period = 4, 20 * time.Second
	used := func() float64 {
		begin, before := time.Now(), cpuOf(b, node)
		time.Sleep(period)
		return (cpuOf(b, node) - before).Seconds() / time.Since(begin).Seconds()
	}
	with, alone := math.Inf(1), math.Inf(1)
	for range 2 {
		alone = min(alone, used())
		ctx, cancel := context.WithCancelCause(b.Context())
		o := &opener{api: n.api, token: token, failed: cancel}
		var all sync.WaitGroup
		for i := range pages {
			all.Go(func() { o.open(ctx, fmt.Sprint("?page=", i)) })
		}
		with = min(with, used())
		cancel(nil)
		all.Wait()
		if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
			b.Fatal(err)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(100*(with-alone)/pages, "percent-of-core")
}

// startForPages starts a node with pages, and returns a token that may do everything and the file of the handler of a load.
func startForPages(b *testing.B) (n *running, token, notes string) {
	b.Helper()
	disk := diskFolder(b)
	notes, tokens := filepath.Join(disk, "notes"), filepath.Join(disk, "tokens.json")
	file := write(b, "taskengine.yaml", fmt.Sprintf(sizeConfig, fmt.Sprintf("{driver: pebble, path: %q}", filepath.Join(disk, "data")), tokens, filepath.Join(disk, "logs"), executable(b), role, notes))
	r := cli(b, nil, "", "token", "create", "ann", "-c", file, "--role", "admin", "--role", "submit")
	if r.code != 0 {
		b.Fatal(r.stderr)
	}
	return start(b, nil, "run", "-c", file), strings.TrimSpace(r.stdout), notes
}

// openedPages are pages that another program has open.
type openedPages struct {
	in  io.WriteCloser
	out *bufio.Reader
	cmd *exec.Cmd
}

// openAll has a program open pages of the node.
func openAll(b *testing.B, api, token string) *openedPages {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), "nice", "-n", "19", executable(b))
	cmd.Env = append(os.Environ(), role+"=pages", pagesOf+"="+api, pagesToken+"="+token)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	return &openedPages{in, bufio.NewReader(out), cmd}
}

// answers returns the number of answers that the pages have got.
func (p *openedPages) answers(b *testing.B) int64 {
	b.Helper()
	if _, err := io.WriteString(p.in, "\n"); err != nil {
		b.Fatal(err)
	}
	line, err := p.out.ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// end closes the pages.
func (p *openedPages) end(b *testing.B) {
	b.Helper()
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		b.Fatal(err)
	}
}
