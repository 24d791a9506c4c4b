// Package filter has the language in which people select tasks, in the command line, the API and bulk jobs:
//
//	state=error type=pay* error~"connection refused" since=2h payload.customer.id=17
//
// A [Filter] is a list of terms, all of which hold for the tasks that it selects. A term has a field, an operator and a value, or several
// values with commas between them of which one is enough:
//
//	term   = field operator value { "," value }
//	value  = word | '"' text '"'
//
// The operators are = and != (equal; a * in a word stands for any characters), ~ and !~ (the text is in it, whatever its case) and <, <=, >, >=.
// A word ends at a space or a comma. In a text in quotes, \" is a quote, \\ a backslash, and * an ordinary character. The fields are those of
// [Fields], and parts of JSON documents and headers: payload.a.b, result.a.b, header.NAME. A name with other characters than letters,
// digits, - and _ is in quotes: payload."a.b".
//
// An empty value stands for none: key= selects tasks without a key. A term with != or !~ also selects tasks without the field; one with another operator
// does not. A part of a document that is a list has the values of all of its elements. Numbers are compared by value; a value
// that is compared with < is a number if both are, else a text.
//
// Times are those of RFC 3339, of which the end may be missing: 2026-05-02, 2026-05-02T12:00. Without a zone they are in UTC. since, until and age also have a
// duration, such as 90s, 2h or 3d. since and until compare the time of the newest change, age the time since a task was added. [Filter.String] has
// the times which that means, so that it selects the same tasks later.
//
// The package has no clock and no I/O.
package filter
