//go:build unix

// Package ordersaga_test runs the shop of this folder, kills it again and again, and compares its orders with the world outside.
package ordersaga_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/logtest"
)

var opened = regexp.MustCompile(`the shop is open at (http://\S+)`)

// process is a running shop.
type process struct {
	*exec.Cmd
	url string
}

// start starts the shop, which is killed with the test, and waits until it is open.
func start(t *testing.T, path, data, world string) *process {
	t.Helper()
	said := new(logtest.Buffer)
	c := exec.CommandContext(t.Context(), path, "-data", data, "-listen", "127.0.0.1:0", "-world", world, "-patience", "1s")
	c.Stdout, c.Stderr = said, said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Logf("the shop said:\n%s", said)
		}
	})
	p := &process{Cmd: c}
	await(t, "the shop is open", func() bool {
		if found := opened.FindStringSubmatch(said.String()); found != nil {
			p.url = found[1]
		}
		return p.url != ""
	})
	return p
}

// await returns when something has come about.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > 3*time.Minute {
			t.Fatalf("not within three minutes: %s", what)
		}
	}
}

// call sends a request to the shop, and returns its answer; "" if it has not succeeded.
func (p *process) call(method, path, body string) string {
	req, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
	if err != nil {
		return ""
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// Of 60 orders a third has an item that is out of stock, and a third is never approved.
func TestEveryOrderEndsRightThoughTheShopIsKilled(t *testing.T) {
	const orders, kills = 60, 8
	shop := filepath.Join(t.TempDir(), "shop")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", shop, "./shop").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w := newWorld()
	mux := http.NewServeMux()
	mux.Handle("POST /{what}/{order}", w)
	outside := httptest.NewServer(mux)
	defer outside.Close()
	data := filepath.Join(t.TempDir(), "orders.db")
	p := start(t, shop, data, outside.URL)
	for i := range orders {
		path, body := fmt.Sprint("/orders/", i), `{"items": ["book", "pen", "ink"], "cents": 4200}`
		if i%3 == 1 {
			body = `{"items": ["book", "rare", "ink"], "cents": 4200}`
		}
		await(t, "an order is taken", func() bool { return p.call("POST", path, body) != "" })
		if i%3 != 2 {
			await(t, "an order is approved", func() bool { return p.call("POST", path+"/approved", "") != "" })
		}
	}
	for range kills {
		before := w.requests()
		ended := func() bool { return allEnded(p, orders) }
		await(t, "the shop works", func() bool { return w.requests() >= before+30 || ended() })
		_ = p.Process.Kill()
		_ = p.Wait()
		p = start(t, shop, data, outside.URL)
	}
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	await(t, "all orders have ended", func() bool { return allEnded(p, orders) })
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range orders {
		number := fmt.Sprint(i)
		got := p.call("GET", "/orders/"+number, "")
		want, shipped, refunded, held := "done shipped", 1, 0, 3
		if i%3 != 0 {
			why := map[int]string{1: "an item is out of stock", 2: "nobody has approved it"}[i%3]
			want, shipped, refunded, held = "done refunded: "+why, 0, 1, 0
		}
		if got != want {
			t.Errorf("order %d is %q, want %q", i, got, want)
		}
		if w.charged[number] != 1 || w.shipped[number] != shipped || w.refunded[number] != refunded || len(w.held[number]) != held {
			t.Errorf("order %d (%s): charged %d times, shipped %d, refunded %d, with %d items reserved",
				i, got, w.charged[number], w.shipped[number], w.refunded[number], len(w.held[number]))
		}
	}
	t.Logf("%d orders were carried out by %d requests, and the shop was killed %d times", orders, w.asked, kills)
}

// allEnded reports whether all orders have ended.
func allEnded(p *process, orders int) bool {
	for i := range orders {
		if !strings.HasPrefix(p.call("GET", fmt.Sprint("/orders/", i), ""), "done") {
			return false
		}
	}
	return true
}
