package schema

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Difference is an object in a schema that differs from the object that the migrations make.
type Difference struct {
	Object   string // such as "column task.owner" or "index task_ready"
	Is, Want string // its present description, and the expected one; "" if it is missing, or should be
}

// String returns the difference in words.
func (d Difference) String() string {
	switch {
	case d.Is == "":
		return fmt.Sprintf("%s is missing: %s", d.Object, d.Want)
	case d.Want == "":
		return fmt.Sprintf("%s should not be there: %s", d.Object, d.Is)
	}
	return fmt.Sprintf("%s is: %s; it should be: %s", d.Object, d.Is, d.Want)
}

// Verify compares a schema with what its migrations make in an empty one: tables with their columns,
// constraints, indexes and triggers, views, sequences and functions. It returns the differences by
// object. For that it makes a schema in a transaction that is rolled back; the role must be allowed
// to create schemas in the database. It does not compare the partitions of the table ended, owners
// and grants.
//
// The error wraps [ErrMismatch] if there are no tables, or tables of a newer program.
func Verify(ctx context.Context, url string, schema string) (found []Difference, err error) {
	err = look(ctx, url, schema, func(tx pgx.Tx, schema string) (err error) {
		found, err = verify(ctx, tx, schema)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("postgres: verify: %w", err)
	}
	return found, nil
}

func verify(ctx context.Context, tx pgx.Tx, schema string) ([]Difference, error) {
	if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock($1)", Lock("migrate", schema)); err != nil {
		return nil, err
	}
	at, err := Version(ctx, tx, schema)
	if err != nil {
		return nil, err
	}
	r := own(schema)
	switch known := len(r.migrations); {
	case at == 0:
		return nil, fmt.Errorf("%w: there are no tables in the schema %s of this database", ErrMismatch, schema)
	case at > known:
		return nil, unknown(at, known)
	case at < known:
		return nil, fmt.Errorf("%w: it is at version %d, and this program knows version %d; run `taskengine migrate apply`, or use the program that made it", ErrMismatch, at, known)
	}
	scratch := fmt.Sprintf("taskengine_verify_%016x", rand.Uint64())
	if err := build(ctx, tx, scratch); err != nil {
		return nil, fmt.Errorf("create the tables for comparison: %w", err)
	}
	is, err := describe(ctx, tx, schema, schema)
	if err != nil {
		return nil, err
	}
	want, err := describe(ctx, tx, scratch, schema)
	if err != nil {
		return nil, err
	}
	return compare(is, want), nil
}

// build makes the tables and functions of this program in a new schema.
func build(ctx context.Context, tx pgx.Tx, schema string) error {
	r := own(schema)
	texts := []string{Fill(schema)(beforeMigrations)}
	for _, m := range r.migrations {
		texts = append(texts, m.SQL)
	}
	texts = append(texts, r.functions)
	for _, sql := range texts {
		_, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
		var e *pgconn.PgError
		if errors.As(err, &e) && e.Code == "42501" {
			return fmt.Errorf("%w; give the role the right CREATE on this database, or verify as another one", err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// describe returns the objects of a schema with their descriptions. Two schemas that were made by
// the same statements have the same descriptions: in them the schema has the name called.
func describe(ctx context.Context, tx pgx.Tx, schema, called string) (map[string]string, error) {
	// Then definitions have names without the schema.
	if _, err := tx.Exec(ctx, "select set_config('search_path', $1, true)", pgx.Identifier{schema}.Sanitize()); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, selectObjects, schema, called)
	if err != nil {
		return nil, err
	}
	all := make(map[string]string)
	var object, like string
	_, err = pgx.ForEachRow(rows, []any{&object, &like}, func() error {
		all[object] = strings.ReplaceAll(like, schema, called)
		return nil
	})
	return all, err
}

// compare returns the differences. It ignores the order of columns if there are missing or additional
// ones.
func compare(is, want map[string]string) []Difference {
	var found []Difference
	objects := maps.Clone(is)
	maps.Copy(objects, want)
	for _, object := range slices.Sorted(maps.Keys(objects)) {
		if is[object] == want[object] || strings.HasPrefix(object, columnOrder) && !sameWords(is[object], want[object]) {
			continue
		}
		found = append(found, Difference{Object: object, Is: is[object], Want: want[object]})
	}
	return found
}

func sameWords(a, b string) bool {
	return slices.Equal(slices.Sorted(slices.Values(strings.Split(a, ", "))), slices.Sorted(slices.Values(strings.Split(b, ", "))))
}

const columnOrder = "order of columns of "

// selectObjects describes the objects of the schema $1. The texts of functions, which are compared by
// their checksum, have the name $2 instead.
const selectObjects = `
with rel as (
	select * from pg_class where relnamespace = (select oid from pg_namespace where nspname = $1) and not relispartition
)
select case relkind when 'v' then 'view ' when 'm' then 'materialized view ' when 'S' then 'sequence ' when 'f' then 'foreign table ' else 'table ' end || relname,
	concat_ws(' ', case relpersistence when 'u' then 'unlogged' else 'there' end, 'partition by ' || pg_get_partkeydef(rel.oid),
		'with ' || (select string_agg(o, ', ' order by o) from unnest(reloptions) o),
		'security by row' || nullif(relrowsecurity, false),
		case when relkind in ('v', 'm') then pg_get_viewdef(rel.oid, true) end,
		(select format('%s from %s by %s, %s to %s, cache %s, cycle %s', format_type(seqtypid, null), seqstart, seqincrement, seqmin, seqmax, seqcache, seqcycle)
			from pg_sequence where seqrelid = rel.oid))
from rel where relkind in ('r', 'p', 'v', 'm', 'S', 'f')
union all
select format('column %s.%s', relname, attname),
	concat_ws(' ', format_type(atttypid, atttypmod), case when attnotnull then 'not null' end, 'default ' || pg_get_expr(adbin, adrelid),
		'collate ' || (select quote_ident(collname) from pg_collation c where c.oid = attcollation and collname <> 'default'),
		'storage ' || case attstorage when 'e' then 'external' when 'm' then 'main' when 'x' then 'extended' else 'plain' end,
		'compression ' || nullif(attcompression::text, ''), 'identity ' || nullif(attidentity::text, ''), 'generated ' || nullif(attgenerated::text, ''))
from rel join pg_attribute on attrelid = rel.oid left join pg_attrdef on adrelid = rel.oid and adnum = attnum
where relkind in ('r', 'p', 'v', 'm', 'f') and attnum > 0 and not attisdropped
union all
select '` + columnOrder + `' || relname, string_agg(attname, ', ' order by attnum)
from rel join pg_attribute on attrelid = rel.oid
where relkind in ('r', 'p') and attnum > 0 and not attisdropped
group by relname
union all
select format('constraint %s of %s', conname, relname), pg_get_constraintdef(c.oid, true)
from rel join pg_constraint c on conrelid = rel.oid
where contype not in ('n', 't') -- columns and triggers tell these
	and conname <> 'task_home' -- it says which shards are here
union all
select 'index ' || indexrelid::regclass, pg_get_indexdef(indexrelid, 0, true) || case when indisvalid then '' else ' INVALID' end
from rel join pg_index on indrelid = rel.oid
union all
select format('trigger %s of %s', tgname, relname), pg_get_triggerdef(t.oid, true) || case tgenabled when 'O' then '' else ' (enabled: ' || tgenabled::text || ')' end
from rel join pg_trigger t on tgrelid = rel.oid
where not tgisinternal
union all
select format('function %s(%s)', proname, pg_get_function_identity_arguments(p.oid)),
	concat_ws(' ', 'returns', pg_get_function_result(p.oid), lanname, case provolatile when 'i' then 'immutable' when 's' then 'stable' else 'volatile' end,
		case when prosecdef then 'security definer' end, case when proisstrict then 'strict' end, 'parallel', proparallel::text, array_to_string(proconfig, ', '),
		'with the text of MD5', md5(replace(prosrc, $1, $2)))
from pg_proc p join pg_language l on l.oid = prolang
where pronamespace = (select oid from pg_namespace where nspname = $1)`

// unknown returns the error for tables of a version that this program does not know.
func unknown(at, known int) error {
	return fmt.Errorf("%w: a newer program has made it, at version %d, and this one knows versions up to %d; use the newer one", ErrMismatch, at, known)
}
