//go:build unix

// Package outbox_test runs the two services of this folder on a PostgreSQL server of its
// own, and kills them.
package outbox_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/internal/logtest"
	"github.com/taskengine/taskengine/internal/pgtest"
	"github.com/taskengine/taskengine/storage/postgres/schema"
)

var server *pgtest.Server // set once, before the tests

func TestMain(m *testing.M) {
	os.Exit(pgtest.Run(m, func(s *pgtest.Server) { server = s }))
}

// build makes the program of a folder and returns its path.
func build(t *testing.T, folder string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), folder)
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./"+folder).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", folder, err, out)
	}
	return path
}

// launch starts a service, which is killed with the test, and waits until it says so.
func launch(t *testing.T, path, database string) *exec.Cmd {
	t.Helper()
	said := new(logtest.Buffer)
	c := exec.CommandContext(t.Context(), path, "-database", database)
	c.Stdout, c.Stderr = said, said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", filepath.Base(path), said)
		}
	})
	await(t, filepath.Base(path)+" is ready", func() bool { return strings.Contains(said.String(), "ready") })
	return c
}

// await returns when something has come about.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func TestEveryOrderHasOneInvoiceThoughServicesAreKilled(t *testing.T) {
	database := server.Database(t)
	if _, err := schema.Migrate(t.Context(), database, schema.Default); err != nil {
		t.Fatal(err)
	}
	shop, billing := build(t, "shop"), build(t, "billing")
	victim := launch(t, billing, database)
	launch(t, billing, database)
	c, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	count := func(sql string) (n int) {
		t.Helper()
		if err := c.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}

	shopping := exec.CommandContext(t.Context(), shop, "-database", database, "-orders", "1000")
	var said bytes.Buffer
	shopping.Stdout, shopping.Stderr = &said, &said
	if err := shopping.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "a hundred invoices", func() bool { return count("select count(*) from billing.invoices") >= 100 })
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	launch(t, billing, database)
	if err := shopping.Wait(); err != nil || !strings.Contains(said.String(), "900 orders were placed and 100 declined") {
		t.Fatalf("shop: %v: %s", err, &said)
	}
	await(t, "all tasks have ended", func() bool {
		return count("select count(*) from taskengine.tasks where state in ('waiting', 'submitted', 'processing')") == 0
	})
	orders := count("select count(*) from shop.orders")
	right := count("select count(*) from (select o.id from shop.orders o join billing.invoices i on i.for_order = o.id and i.cents = o.cents group by o.id having count(*) = 1) o")
	invoices, done := count("select count(*) from billing.invoices"), count("select count(*) from taskengine.tasks where state = 'done'")
	if orders != 900 || right != 900 || invoices != 900 || done != 900 {
		t.Errorf("%d orders, of which %d have one invoice; %d invoices and %d tasks that are done", orders, right, invoices, done)
	}
}
