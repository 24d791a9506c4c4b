//go:build !race

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// A token is made at one node of a cluster, used and rotated at another, and revoked at the first. No secret is in a log or in the lists.
func TestATokenOfTheClusterCountsOnAllNodes(t *testing.T) {
	t.Parallel()
	file := write(t, "taskengine.yaml", fmt.Sprintf(`storage: %s
api: {tokens: %q, audit: log}
handlers: {cat: {exec: [/bin/cat]}}
types: {copy: {handler: cat}, other: {handler: cat}}
`, onPostgres(tables(t)), filepath.Join(t.TempDir(), "tokens.json")))
	r := cli(t, nil, "", "token", "create", "boss", "--role", "admin", "-c", file)
	if r.code != exitOK {
		t.Fatalf("create: %+v", r)
	}
	boss := strings.TrimSpace(r.stdout)
	all := nodes(t, file, 2)
	call := func(node int, token string, args ...string) result {
		return cli(t, []string{"TASKENGINE_ADDRESS=" + all[node].api, "TASKENGINE_TOKEN=" + token}, "", args...)
	}
	ok := func(node int, token string, args ...string) string {
		t.Helper()
		r := call(node, token, args...)
		if r.code != exitOK {
			t.Fatalf("%v: %+v", args, r)
		}
		return strings.TrimSpace(r.stdout)
	}
	count := []string{"task", "count", "--type", "copy"}
	accepts := func(node int, token string) func() bool {
		return func() bool { return call(node, token, count...).code == exitOK }
	}
	refuses := func(node int, token string) func() bool {
		return func() bool { return call(node, token, count...).code == exitNotAllowed }
	}

	first := ok(0, boss, "token", "add", "shop", "--role", "submit", "--type", "cop*", "--expires", "30d")
	if !accepts(0, first)() {
		t.Error("the node that made the token does not accept it")
	}
	becomes(t, "other node that accepts the token", accepts(1, first))
	ok(1, first, "task", "add", "copy", "--data", "1", "--wait")
	if r := call(1, first, "task", "add", "other", "--data", "1"); r.code != exitNotAllowed || !strings.Contains(r.stderr, "the token shop is for tasks of the types cop*") {
		t.Errorf("a type that it is not for: %+v", r)
	}
	if r := call(1, first, "token", "list"); r.code != exitNotAllowed || !strings.Contains(r.stderr, "needs the role admin") {
		t.Errorf("the list by a token without the right: %+v", r)
	}
	second := ok(1, boss, "token", "rotate", "shop", "--grace", "1h")
	becomes(t, "first node that accepts the new secret", accepts(0, second))
	if !accepts(0, first)() || !accepts(1, first)() {
		t.Error("the secret from before is refused in the time of grace")
	}
	all[1].says(t, `"verb":"RotateToken"`)
	if list := ok(1, boss, "token", "list"); !strings.Contains(list, "shop") || !strings.Contains(list, "boss (says ") || !strings.Contains(list, "cop*") || strings.Contains(list, "te_") {
		t.Errorf("the list is %s", list)
	}
	ok(0, boss, "token", "revoke", "shop")
	for _, token := range []string{first, second} {
		if !refuses(0, token)() {
			t.Error("the node that revoked the token accepts it")
		}
		becomes(t, "other node that refuses the token", refuses(1, token))
	}
	revoked := parse(t, ok(1, boss, "token", "list", "--revoked", "-o", "json"))
	if len(revoked) != 2 || revoked[0]["name"] != "shop" || revoked[0]["state"] != "revoked" || revoked[1]["in_file"] != true {
		t.Errorf("the list with revoked tokens is %v", revoked)
	}
	if r := call(0, boss, "token", "revoke", "boss"); r.code != exitNotFound || !strings.Contains(r.stderr, "boss is in the file") {
		t.Errorf("a token of the file is revoked: %+v", r)
	}
	for _, secret := range []string{boss, first, second} {
		if strings.Contains(all[0].log.String()+all[1].log.String(), strings.TrimPrefix(secret, "te_")) {
			t.Error("a log has a secret")
		}
	}
}
