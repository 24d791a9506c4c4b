// Witness compares the table orders with what the platforms have, and checks that the slices that were fetched tile the time line. It
// asks the platforms by HTTP and the database by SQL, and has no code in common with the engine or the fetcher.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const shownDifferences = 10 // of a platform

func main() {
	database := flag.String("database", "", "the URL of the database")
	platforms := flag.String("platforms", "", "the URL of the platforms")
	source := flag.String("source", "orders", "the name of the source")
	since := flag.String("since", "", "where the slices begin")
	until := flag.String("until", "", "the time until which everything must have been fetched")
	resets := flag.String("resets", "", "how often the cursors of platforms were moved, such as shop=2,depot=1")
	flag.Parse()
	isRight, err := run(context.Background(), *database, *platforms, *source, *since, *until, *resets)
	if err != nil {
		fmt.Fprintln(os.Stderr, "witness:", err)
		os.Exit(2)
	}
	if !isRight {
		os.Exit(1)
	}
}

// run prints what it finds about each platform, and reports whether all is right.
func run(ctx context.Context, database, platforms, source, since, until, resets string) (bool, error) {
	var times [2]time.Time
	for i, text := range []string{since, until} {
		var err error
		if times[i], err = time.Parse(time.RFC3339Nano, text); err != nil {
			return false, fmt.Errorf("-since and -until: %w", err)
		}
	}
	moved, err := parseResets(resets)
	if err != nil {
		return false, err
	}
	c, err := pgx.Connect(ctx, database)
	if err != nil {
		return false, err
	}
	defer func() { _ = c.Close(ctx) }()
	all, err := readSlices(ctx, c, source)
	if err != nil {
		return false, err
	}
	isRight := true
	for _, name := range []string{"shop", "market", "depot"} {
		want, err := ask(ctx, platforms+"/control/all/"+name)
		if err != nil {
			return false, err
		}
		got, writes, err := readOrders(ctx, c, name)
		if err != nil {
			return false, err
		}
		wrong := append(tiles(all[name], times[0], times[1], 1+moved[name]), compare(want, got)...)
		fmt.Printf("%-6s  has %d orders. The table has %d, written %d times. %s\n", name, len(want), len(got), writes, summary(all[name], moved[name]))
		for i, text := range wrong {
			if i == shownDifferences {
				fmt.Printf("        and %d more differences\n", len(wrong)-i)
				break
			}
			fmt.Println("        WRONG:", text)
		}
		isRight = isRight && len(wrong) == 0
	}
	if isRight {
		fmt.Println("every order is there once and as its platform has it, and the slices leave no gap")
	}
	return isRight, nil
}

// parseResets reads a list of NAME=NUMBER.
func parseResets(text string) (map[string]int, error) {
	all := make(map[string]int)
	for pair := range strings.SplitSeq(text, ",") {
		name, count, _ := strings.Cut(pair, "=")
		if name == "" {
			continue
		}
		n, err := strconv.Atoi(count)
		if err != nil {
			return nil, fmt.Errorf("-resets: %q: %w", pair, err)
		}
		all[name] = n
	}
	return all, nil
}

// ask returns all orders of a platform by their numbers.
func ask(ctx context.Context, url string) (map[string]order, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer func() { _ = a.Body.Close() }()
	if a.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, a.Status)
	}
	var list []struct {
		Number string
		order
	}
	if err := json.NewDecoder(a.Body).Decode(&list); err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	all := make(map[string]order)
	for _, o := range list {
		all[o.Number] = o.order
	}
	return all, nil
}

// readOrders returns the orders of a platform in the table by their numbers, and how often they were written.
func readOrders(ctx context.Context, c *pgx.Conn, platform string) (all map[string]order, writes int, err error) {
	rows, err := c.Query(ctx, "select number, changed, status, cents, writes from orders where platform = $1", platform)
	if err != nil {
		return nil, 0, err
	}
	all = make(map[string]order)
	var number string
	var o order
	var n int
	_, err = pgx.ForEachRow(rows, []any{&number, &o.Changed, &o.Status, &o.Cents, &n}, func() error {
		all[number] = o
		writes += n
		return nil
	})
	return all, writes, err
}

// readSlices returns the slices of a source by their platforms, from the payloads of their tasks.
func readSlices(ctx context.Context, c *pgx.Conn, source string) (map[string][]slice, error) {
	rows, err := c.Query(ctx, `select id::text, coalesce(parent::text, ''), state, payload::json->>'platform', (payload::json->>'from')::timestamptz,
		(payload::json->>'start')::timestamptz, (payload::json->>'end')::timestamptz from taskengine.tasks where type = 'fetch' and payload::json->>'source' = $1`, source)
	if err != nil {
		return nil, err
	}
	all := make(map[string][]slice)
	var platform string
	var s slice
	_, err = pgx.ForEachRow(rows, []any{&s.id, &s.parent, &s.state, &platform, &s.from, &s.start, &s.end}, func() error {
		all[platform] = append(all[platform], s)
		return nil
	})
	return all, err
}
