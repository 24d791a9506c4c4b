//go:build !race

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// counting is a handler that adds 1 to the number in a document.
const counting = `
storage: %s
handlers:
  web: {http: {url: %q, envelope: true, may_write: "count/*"}}
types:
  web: {max_crashes: 0, retry: {max: forever, backoff: none}}
`

// countIn answers tasks: it reads the document of their node at an address, and writes it with its next number.
func countIn(address *atomic.Value) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		res, err := http.Post("http://"+address.Load().(string)+"/taskengine.v1.TaskService/GetDocument", "application/json", bytes.NewReader([]byte(`{"key": "count/a"}`)))
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		defer res.Body.Close()
		var got struct {
			Document struct {
				Data    []byte
				Version string
			}
		}
		switch res.StatusCode {
		case http.StatusOK:
			err = json.NewDecoder(res.Body).Decode(&got)
		case http.StatusNotFound:
			got.Document.Version = "0"
		default:
			err = fmt.Errorf("%s", res.Status)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		n, _ := strconv.Atoi(string(got.Document.Data))
		w.Header().Set("Content-Type", "application/vnd.taskengine.answer+json")
		io.WriteString(w, fmt.Sprintf(`{"documents": [{"key": "count/a", "data": %d, "if_version": %s}]}`, n+1, got.Document.Version))
	}
}

func TestADocumentCountsEachTaskOnceThoughNodesAreKilled(t *testing.T) {
	t.Parallel()
	for name, storage := range map[string]func(t *testing.T) string{
		"pebble":     func(*testing.T) string { return "{driver: pebble, path: ./data}" },
		"PostgreSQL": func(t *testing.T) string { return onPostgres(tables(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var address atomic.Value
			web := httptest.NewServer(countIn(&address))
			defer web.Close()
			config := write(t, "taskengine.yaml", fmt.Sprintf(counting, storage(t), web.URL))
			testCount(t, "web", func() *running {
				n := start(t, withPath(), "run", "-c", config)
				address.Store(n.api)
				return n
			})
		})
	}
}

// programsCount makes a node with handlers that are programs, and add 1 to the number in a document.
const programsCount = `
storage: {driver: pebble, path: ./data}
handlers:
  plugin: {plugin: [%q], env: {%s: plugin, COUNT: "yes"}, slots: 8, may_write: "count/*"}
  worker: {remote: {reconnect: 1s, may_write: "count/*"}}
types:
  count: {handler: %s, max_crashes: 0, retry: {max: forever, backoff: none}}
`

func TestADocumentCountsEachTaskOnceThoughProgramsAreKilled(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, launch := range map[string]launcher{
		"a plugin": nil, "a worker": startWorker, "a worker in Python": startPythonWorker, "a worker in Node.js": startNodeJSWorker,
		"a worker in Java": startJavaWorker,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handler := "plugin"
			if launch != nil {
				handler = "worker"
			}
			config := write(t, "taskengine.yaml", fmt.Sprintf(programsCount, self, role, handler))
			api := ""
			var crew []*worker
			testCount(t, "count", func() *running {
				if api == "" {
					n := start(t, nil, "run", "-c", config)
					api = n.api
					for range 2 {
						if launch != nil {
							crew = append(crew, launch(t, api, "COUNT=yes"))
						}
					}
					return n
				}
				if launch != nil { // the other one goes on, with its answers for the node that is dead
					crew[0].kill(t)
					crew = append(crew[1:], launch(t, api, "COUNT=yes"))
				}
				return startAt(t, api, nil, "run", "-c", config)
			})
		})
	}
}

// testCount kills a node while tasks of a type count in a document, and starts it again by run.
func testCount(t *testing.T, typ string, run func() *running) {
	t.Helper()
	const each, kills = 8, 4
	n := run()
	var ids []string
	for range kills {
		for range each {
			ids = append(ids, fmt.Sprint(n.objects(t, "task", "add", typ)[0]["id"]))
		}
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond) // wherever that is
		if err := n.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-n.ended
		n = run()
	}
	for _, id := range ids {
		n.until(t, id, "done")
	}
	if got := n.ok(t, "document", "get", "count/a"); got != strconv.Itoa(len(ids)) {
		t.Errorf("the document is %s after %d tasks", got, len(ids))
	}
}
