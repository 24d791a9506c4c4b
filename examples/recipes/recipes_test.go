//go:build unix && !race

// Package recipes_test runs the recipes with a real node, and kills them and the node while orders come in.
package recipes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/taskengine/taskengine/internal/logtest"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

const (
	patience = 3 * time.Minute // for an expected event
	orders   = 200
)

var server *pgtest.Server // set once, before the tests

func TestMain(m *testing.M) {
	os.Exit(pgtest.Run(m, func(s *pgtest.Server) { server = s }))
}

// program is a process that is started again at the same address.
type program struct {
	t       *testing.T
	command func(address string) *exec.Cmd
	ready   *regexp.Regexp // of its output; its group is the address
	address string
	cmd     *exec.Cmd
	said    *logtest.Buffer
}

// start starts the program, and returns when it is ready.
func (p *program) start() {
	p.t.Helper()
	c, said := p.command(p.address), new(logtest.Buffer)
	c.Stdout, c.Stderr = said, said
	if err := c.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.cmd, p.said = c, said
	p.t.Cleanup(func() {
		_ = c.Process.Kill() // an error says that it has ended
		_ = c.Wait()
		if p.t.Failed() {
			p.t.Logf("%s said:\n%s", filepath.Base(c.Path), said)
		}
	})
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if m := p.ready.FindStringSubmatch(said.String()); m != nil {
			if p.address != m[1] { // only the first time: others read it later
				p.address = m[1]
			}
			return
		}
		if time.Since(begin) > patience {
			p.t.Fatalf("%s is not ready within %v: %s", c.Path, patience, said)
		}
	}
}

// kill kills the program and starts it again.
func (p *program) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	_ = p.cmd.Wait()
	p.start()
}

// stop asks the program to end, which it is to do in order.
func (p *program) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	err := p.cmd.Wait()
	status, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	// Uvicorn gives itself the signal again when it has closed, and Java ends with the status that a shell has for that.
	isOwn := status.Signal() == syscall.SIGTERM || status.ExitStatus() == 128+int(syscall.SIGTERM)
	if err != nil && !isOwn || !strings.Contains(p.said.String(), "closed") {
		p.t.Errorf("asked to end, it ended with %v: %s", err, p.said)
	}
}

// build builds a program in Go and returns its path.
func build(t *testing.T, folder string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, folder).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", folder, err, out)
	}
	return path
}

// node starts a node with the configuration of the recipes.
func node(t *testing.T, storage string) *program {
	t.Helper()
	engine := build(t, "../../cmd/taskengine")
	n := &program{t: t, ready: regexp.MustCompile(`"msg":"ready","api":"([^"]+)"`), address: "127.0.0.1:0", command: func(address string) *exec.Cmd {
		return exec.Command(engine, "run", "-c", "taskengine.yaml", "--set", "storage="+storage, "--set", "api.listen="+address, "--set", "admin.listen=none", "--set", "task_log.max_size=0B")
	}}
	n.start()
	return n
}

// shop starts the web service of a recipe.
func shop(t *testing.T, folder string, n *program, env []string, command ...string) *program {
	t.Helper()
	s := &program{t: t, ready: regexp.MustCompile(`listening on ([0-9.]+:[0-9]+)`), command: func(address string) *exec.Cmd {
		c := exec.Command(command[0], command[1:]...)
		port := "0"
		if address != "" {
			port = address[strings.LastIndex(address, ":")+1:]
		}
		c.Dir, c.Env = folder, append(append(os.Environ(), env...), "TASKENGINE_ADDRESS="+n.address, "PORT="+port)
		return c
	}}
	s.start()
	return s
}

// call makes a request of a shop, again and again if there is no answer or one that says to come back later.
func call(ctx context.Context, s *program, method, path, body string) (status int, answer map[string]any, err error) {
	for {
		status, answer, err = once(ctx, s, method, path, body)
		if err == nil && status < 500 && !(method == http.MethodGet && status == http.StatusAccepted) {
			return status, answer, nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return status, answer, errors.Join(err, ctx.Err())
		}
	}
}

func once(ctx context.Context, s *program, method, path, body string) (status int, answer map[string]any, err error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.address+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil {
		err = json.NewDecoder(bytes.NewReader(text)).Decode(&answer)
	}
	return res.StatusCode, answer, err
}

// testShop sends orders, some of them twice, while the shop and its node are killed.
func testShop(t *testing.T, n, s *program) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*patience)
	defer cancel()
	for _, bad := range []string{`{"id":"x"}`, `{"id":"","cents":1}`, `{"cents":1}`, `nonsense`} {
		if status, answer, err := call(ctx, s, http.MethodPost, "/orders", bad); err != nil || status != http.StatusBadRequest || answer["error"] == nil {
			t.Errorf("%s is answered with %d, %v, %v", bad, status, answer, err)
		}
	}
	if status, answer, err := call(ctx, s, http.MethodGet, "/orders/none", ""); err != nil || status != http.StatusNotFound {
		t.Errorf("an order that there is not is answered with %d, %v, %v", status, answer, err)
	}
	var accepted atomic.Int64
	tasks := make([]string, orders)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := worker; i < orders; i += 8 {
				order := fmt.Sprintf(`{"id":"o-%d","cents":%d}`, i, i+1)
				for range 1 + i%2 { // every other one twice
					status, answer, err := call(ctx, s, http.MethodPost, "/orders", order)
					id := fmt.Sprint(answer["task"])
					if err != nil || status != http.StatusAccepted || tasks[i] != "" && tasks[i] != id {
						t.Errorf("order %d is answered with %d, %v, %v; before it was task %q", i, status, answer, err, tasks[i])
						return
					}
					tasks[i] = id
				}
				accepted.Add(1)
			}
		})
	}
	for _, victim := range []*program{s, n, s} {
		some := accepted.Load() + orders/8
		for accepted.Load() < min(some, orders) && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		victim.kill()
	}
	all.Wait()
	for i := range orders {
		status, answer, err := call(ctx, s, http.MethodGet, fmt.Sprintf("/orders/o-%d", i), "")
		if want := fmt.Sprintf("R-o-%d", i); err != nil || status != http.StatusOK || answer["state"] != "done" || answer["receipt"] != want {
			t.Errorf("of order %d became %d, %v, %v", i, status, answer, err)
		}
	}
	s.stop()
}

func TestAServiceInGoChargesEachOrder(t *testing.T) {
	t.Parallel()
	n := node(t, fmt.Sprintf("{driver: pebble, path: %q}", filepath.Join(t.TempDir(), "data")))
	testShop(t, n, shop(t, "go", n, nil, build(t, "./go")))
}

// installs skips a test that installs packages, unless SCAFFOLDS says to do so, as scripts/test does.
func installs(t *testing.T) {
	t.Helper()
	if os.Getenv("SCAFFOLDS") == "" {
		t.Skip("it installs packages: set SCAFFOLDS=1")
	}
}

// run runs a command to its end.
func run(t *testing.T, folder, name string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = folder
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

func TestAServiceWithExpressChargesEachOrder(t *testing.T) {
	installs(t)
	t.Parallel()
	sdk, err := filepath.Abs("../../plugins/sdk/node")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(sdk, "dist/client/index.js")); err != nil {
		t.Skipf("the SDK is not built: %v", err)
	}
	folder := t.TempDir()
	for _, file := range []string{"shop.mjs", "package.json"} {
		text, err := os.ReadFile(filepath.Join("express", file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, sdk, "npm", "pack", "--ignore-scripts", "--silent", "--pack-destination", folder)
	run(t, folder, "npm", "install", "--no-audit", "--no-fund", "--silent", "--no-package-lock", "./taskengine-handler-0.1.0.tgz")
	n := node(t, fmt.Sprintf("{driver: pebble, path: %q}", filepath.Join(t.TempDir(), "data")))
	testShop(t, n, shop(t, folder, n, nil, "node", "shop.mjs"))
}

func TestAServiceWithSpringChargesEachOrder(t *testing.T) {
	installs(t)
	t.Parallel()
	const name = "taskengine-handler-0.1.0"
	sdk, folder := "../../plugins/sdk/java", t.TempDir()
	if _, err := os.Stat(filepath.Join(sdk, "target", name+".jar")); err != nil {
		t.Skipf("the SDK is not built: %v", err)
	}
	// What others have written is that of the usual local repository; the SDK is not put there.
	repository := filepath.Join(folder, "repository")
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	run(t, "", "cp", "-as", filepath.Join(home, ".m2/repository"), repository)
	packed := filepath.Join(repository, "io/github/taskengine/taskengine-handler")
	run(t, "", "rm", "-rf", packed)
	run(t, "", "mkdir", "-p", filepath.Join(packed, "0.1.0"))
	run(t, "", "cp", filepath.Join(sdk, "target", name+".jar"), filepath.Join(packed, "0.1.0", name+".jar"))
	run(t, "", "cp", filepath.Join(sdk, "target/dependency-reduced-pom.xml"), filepath.Join(packed, "0.1.0", name+".pom"))
	run(t, "", "cp", "-r", "spring/pom.xml", "spring/src", folder)
	run(t, folder, "mvn", "-B", "-ntp", "-q", "-Dmaven.repo.local="+repository, "package")
	n := node(t, fmt.Sprintf("{driver: pebble, path: %q}", filepath.Join(t.TempDir(), "data")))
	testShop(t, n, shop(t, folder, n, nil, "java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar", filepath.Join(folder, "target", "shop.jar")))
}

func TestAServiceWithFastAPIChargesEachOrder(t *testing.T) {
	installs(t)
	t.Parallel()
	python := filepath.Join(t.TempDir(), "venv", "bin", "python")
	run(t, "", "/usr/bin/python3", "-m", "venv", filepath.Dir(filepath.Dir(python)))
	run(t, "", python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "fastapi/requirements.txt")
	sdk, err := filepath.Abs("../../plugins/sdk/python")
	if err != nil {
		t.Fatal(err)
	}
	database := server.Database(t)
	if _, err := schema.Migrate(t.Context(), database, schema.Default); err != nil {
		t.Fatal(err)
	}
	n := node(t, fmt.Sprintf("{driver: postgres, url: %q}", database))
	env := []string{"DATABASE=" + database, "PYTHONPATH=" + sdk, "PYTHONDONTWRITEBYTECODE=1"}
	testShop(t, n, shop(t, "fastapi", n, env, python, "shop.py"))
	var receipts int
	if err := pgtest.Connect(t, database).QueryRow(t.Context(), "select count(*) from receipts").Scan(&receipts); err != nil || receipts != orders {
		t.Errorf("%d receipts were written for %d orders, %v", receipts, orders, err)
	}
}
