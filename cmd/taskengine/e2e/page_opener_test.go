package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	openPages   = 1000
	pagesPeriod = 14 * time.Second // of a measurement with pages and of one without

	pagesOf    = "PAGES_OF"    // the environment variable with the address of the node
	pagesToken = "PAGES_TOKEN" // and with a token
)

// opener is a program that opens many pages of a node.
type opener struct {
	api, token string
	answers    atomic.Int64
	failed     context.CancelCauseFunc
}

// servePages opens pages until the standard input ends. It answers each line with the number of answers of the node, and returns the exit status.
func servePages() int {
	ctx, cancel := context.WithCancelCause(context.Background())
	o := &opener{api: os.Getenv(pagesOf), token: os.Getenv(pagesToken), failed: cancel}
	go func() {
		defer cancel(nil)
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			fmt.Println(o.answers.Load())
		}
	}()
	var all sync.WaitGroup
	paths := []string{"", "", "", "tasks?q=state%3Derror", "errors", "nodes", "tasks", "bulk"}
	for i := range openPages {
		all.Go(func() {
			select { // people do not open pages at the same moment
			case <-time.After(pagesPeriod / 4 * time.Duration(i) / openPages):
				o.open(ctx, paths[i%len(paths)])
			case <-ctx.Done():
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// open reads a page again and again, as its script does, until ctx ends.
func (o *opener) open(ctx context.Context, path string) {
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	every, tag := 2000, ""
	for ctx.Err() == nil {
		r, err := requestOfPage(ctx, o.api, path, o.token)
		if err != nil {
			o.failed(err)
			return
		}
		r.Header.Set("Taskengine-Live", strconv.Itoa(every))
		if tag != "" {
			r.Header.Set("If-None-Match", tag)
		}
		res, err := transport.RoundTrip(r)
		if err != nil {
			o.failed(err)
			return
		}
		_, err = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if ctx.Err() == nil && (err != nil || res.StatusCode != http.StatusOK && res.StatusCode != http.StatusNotModified) {
			o.failed(fmt.Errorf("%q gives %d, %v", path, res.StatusCode, err))
			return
		}
		o.answers.Add(1)
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

// requestOfPage returns the request of a page by the owner of a token.
func requestOfPage(ctx context.Context, api, path, token string) (*http.Request, error) {
	_, port, err := net.SplitHostPort(api)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+api+"/ui/"+path, nil)
	if err == nil {
		r.AddCookie(&http.Cookie{Name: "taskengine-token-" + port, Value: token})
	}
	return r, err
}
