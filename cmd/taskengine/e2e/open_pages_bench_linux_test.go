//go:build !race

package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	openPages   = 1000
	pagesPeriod = 20 * time.Second // of a measurement with pages and of one without
)

// BenchmarkOpenPages measures how long tasks wait for their start while a thousand pages of the dashboard are open, in turns with none: the median of the
// 99th percentiles with pages, without, and of their ratios. Each page has a connection of its own and asks as its script does. node-cpu is the processor
// time of the node in a second, clients included only in that they use the same machine. Run it with -benchtime 1x.
func BenchmarkOpenPages(b *testing.B) {
	disk := diskFolder(b)
	notes, tokens := filepath.Join(disk, "notes"), filepath.Join(disk, "tokens.json")
	file := write(b, "taskengine.yaml", fmt.Sprintf(sizeConfig, fmt.Sprintf("{driver: pebble, path: %q}", filepath.Join(disk, "data")), tokens, filepath.Join(disk, "logs"), executable(b), role, notes))
	r := cli(b, nil, "", "token", "create", "ann", "-c", file, "--role", "admin", "--role", "submit")
	if r.code != 0 {
		b.Fatal(r.stderr)
	}
	token := r.stdout[:len(r.stdout)-1]
	n := start(b, nil, "run", "-c", file)
	load := beginLoad(b, n.api, token, notes)
	defer load.end()
	node := strconv.Itoa(n.cmd.Process.Pid)
	time.Sleep(5 * time.Second)
	var with, without []time.Duration
	var ratios, requests, cpus, cpusAlone []float64
	for range sizeRounds {
		pages := openAll(b, n, token)
		time.Sleep(pagesPeriod / 2) // until they ask less often, since they are many
		begin, before, answers := time.Now(), cpuOf(b, node), pages.answers.Load()
		time.Sleep(pagesPeriod)
		end := time.Now()
		cpus = append(cpus, (cpuOf(b, node)-before).Seconds()/end.Sub(begin).Seconds())
		requests = append(requests, float64(pages.answers.Load()-answers)/end.Sub(begin).Seconds())
		pages.end()
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

// openedPages are open pages.
type openedPages struct {
	answers atomic.Int64
	end     func() // closes them
}

// openAll opens pages of the node.
func openAll(b *testing.B, n *running, token string) *openedPages {
	ctx, cancel := context.WithCancel(b.Context())
	c := new(openedPages)
	var all sync.WaitGroup
	paths := []string{"", "", "", "tasks?q=state%3Derror", "errors", "nodes", "tasks", "bulk"}
	for i := range openPages {
		all.Go(func() {
			select { // people do not open pages at the same moment
			case <-time.After(pagesPeriod / 4 * time.Duration(i) / openPages):
				c.open(ctx, b, n, paths[i%len(paths)], token)
			case <-ctx.Done():
			}
		})
	}
	c.end = func() {
		cancel()
		all.Wait()
	}
	return c
}

// open reads a page again and again, as its script does, until ctx ends.
func (c *openedPages) open(ctx context.Context, b *testing.B, n *running, path, token string) {
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	every, tag := 2000, ""
	for ctx.Err() == nil {
		r, err := requestOfPage(ctx, n, path, token)
		if err != nil {
			b.Error(err)
			return
		}
		r.Header.Set("Taskengine-Live", strconv.Itoa(every))
		if tag != "" {
			r.Header.Set("If-None-Match", tag)
		}
		res, err := transport.RoundTrip(r)
		if err != nil {
			if ctx.Err() == nil {
				b.Error(err)
			}
			return
		}
		_, err = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if ctx.Err() == nil && (err != nil || res.StatusCode != http.StatusOK && res.StatusCode != http.StatusNotModified) {
			b.Errorf("%q gives %d, %v", path, res.StatusCode, err)
			return
		}
		c.answers.Add(1)
		if res.StatusCode == http.StatusOK {
			tag = res.Header.Get("ETag")
		}
		if ms, err := strconv.Atoi(res.Header.Get("Taskengine-Every")); err == nil && ms > 0 {
			every = ms
		}
		select {
		case <-time.After(time.Duration(every) * time.Millisecond):
		case <-ctx.Done():
		}
	}
}
