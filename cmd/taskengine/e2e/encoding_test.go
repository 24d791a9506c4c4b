//go:build !race

package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/taskengine/taskengine/internal/pgtest"
)

// encodedConfig makes a node that encodes, with keys of an environment variable each.
const encodedConfig = `
storage: %s
encoding: {compress: 1KiB, key: "%s", keys: {"2025": "${OLD_KEY}", "2026": "${NEW_KEY}"}}
handlers: {copy: {exec: [/bin/cat]}, hold: {exec: [/bin/false]}}
types: {copy: {handler: copy}, hold: {handler: hold, retry: {max: 100, backoff: {exponential: {initial: 1h}}}}}
`

// keysOf returns the environment of such a node, of which one key may be another.
func keysOf(old, fresh byte) []string {
	text := func(b byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)) }
	return []string{"OLD_KEY=" + text(old), "NEW_KEY=" + text(fresh)}
}

// What tasks carry is not in the files of a store or in the tables, and the key can be changed.
func TestWhatTasksCarryIsEncryptedInTheStore(t *testing.T) {
	for _, driver := range []string{"pebble", "bolt", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			folder, storage, url := t.TempDir(), "{driver: "+driver+", path: ./data}", ""
			if driver == "postgres" {
				url = tables(t)
				storage = onPostgres(url)
			}
			file := func(key string) string {
				path := filepath.Join(folder, "taskengine.yaml")
				if err := os.WriteFile(path, fmt.Appendf(nil, encodedConfig, storage, key), 0o600); err != nil {
					t.Fatal(err)
				}
				return path
			}
			secret := strings.Repeat("the secret of a customer ", 100)
			data := "@" + write(t, "payload", fmt.Sprintf("%q", secret))
			n := start(t, keysOf(1, 2), "run", "-c", file("2025"))
			copied := fmt.Sprint(n.objects(t, "task", "add", "copy", "--data", data)[0]["id"])
			held := fmt.Sprint(n.objects(t, "task", "add", "hold", "--data", data)[0]["id"])
			if got := n.until(t, copied, "done"); got["result"] != secret || got["payload"] != secret {
				t.Errorf("the task is %v", got)
			}
			n.until(t, held, "waiting")
			n.signal(t, syscall.SIGTERM)
			if code := n.exit(t); code != 0 {
				t.Fatalf("the node ended with %d", code)
			}
			if where := readable(t, folder, "secret of a customer"); where != "" {
				t.Errorf("the secret is in %s", where)
			}
			if url != "" {
				if rows := readableRows(t, url, "secret of a customer"); rows > 0 {
					t.Errorf("the secret is in %d rows", rows)
				}
			}
			n = start(t, keysOf(9, 2), "run", "-c", file("2026")) // with another key of that name
			if got := cli(t, nil, "", "--address", n.api, "task", "get", copied); got.code == 0 || !strings.Contains(got.stderr, `encrypted with another key "2025"`) {
				t.Errorf("without the key it is shown: %s%s", got.stdout, got.stderr)
			}
			n.signal(t, syscall.SIGTERM)
			n.exit(t)
			n = start(t, keysOf(1, 2), "run", "-c", file("2026"))
			if got := n.objects(t, "task", "get", copied)[0]; got["result"] != secret {
				t.Errorf("the task is %v", got)
			}
			n.ok(t, "task", "resume", held)
			fresh := fmt.Sprint(n.objects(t, "task", "add", "copy", "--data", data)[0]["id"])
			n.until(t, fresh, "done")
			if got := n.objects(t, "task", "get", held)[0]; got["payload"] != secret {
				t.Errorf("the task is %v", got)
			}
		})
	}
}

// readable returns where a text is in the files of a folder; "" if it is nowhere.
func readable(t *testing.T, folder, text string) (where string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) {
			where = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return where
}

// readableRows returns how many tasks of a database have a text in their payload or result.
func readableRows(t *testing.T, url, text string) (n int) {
	t.Helper()
	const query = `select count(*) from (select payload, result from taskengine.task union all select payload, result from taskengine.ended) t
		where position($1::bytea in payload) > 0 or position($1::bytea in result) > 0`
	if err := pgtest.Connect(t, url).QueryRow(t.Context(), query, []byte(text)).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
