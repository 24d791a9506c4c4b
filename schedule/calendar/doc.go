// Package calendar says when a schedule fires: at the times of a cron expression in a time zone,
// or at fixed intervals. It is pure: it reads no clock, and Next depends on its argument alone.
//
// # Expressions
//
// A cron expression has five fields, or six with the seconds first:
//
//	second        0-59                  only with six fields; 0 with five
//	minute        0-59
//	hour          0-23
//	day of month  1-31, L, L-n, nW, LW
//	month         1-12 or JAN-DEC
//	day of week   0-7 or SUN-SAT, dL, d#n; 0 and 7 are Sunday
//
// A field is a list of items with commas between them: "*" or "?" is every value, "a" one value, "a-b"
// a range, and "/n" takes every n-th value of the item before it: "*/15", "10-40/10", "5/20" (from 5
// to the end of the field). A range that ends before it begins goes on over the end of the field:
// "FRI-MON", "22-5". The days of the month have no such ranges, because months have different lengths.
// "?" is for the two fields of days only. Upper and lower case are alike.
//
// In the day of month, "L" is the last day, "L-3" the third day before it, "15W" the weekday
// (Monday to Friday) that is nearest to the 15th within the month, and "LW" the last weekday. In
// the day of week, "5L" is the last Friday of the month and "MON#2" its second Monday. A month
// without the day, such as the 31st or a fifth Monday, has no match.
//
// If neither of the two fields of days begins with "*" or "?", a day matches if one of them does:
// "0 0 13 * FRI" is every 13th and every Friday. Otherwise it must match both: "0 0 */2 * MON" is
// each Monday with an odd date.
//
// "H" stands for a value that is derived from the name in Options.Hash, so that schedules with
// one expression do not all fire at once: "H 3 * * *" is a minute between 03:00 and 03:59, "H/15"
// every 15 minutes, "H(0-29)" a value of the range. In the day of month H is at most 28.
//
// The macros are @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly.
//
// # Clock changes
//
// An expression is about the time that a wall clock in the zone shows. When the clock is put forward
// it does not show some times (a gap), and when it is put back it shows some times again (a repeat).
// The effect depends on whether the expression names hours:
//
//   - An expression that allows all 24 hours names none. It fires whenever the clock shows a time that
//     matches, in each pass of a repeat, and nothing is made up for a gap. So "*/10 * * * *" fires
//     every ten minutes throughout.
//   - Any other expression names times of the day, and each of them should come once a day. A time is
//     reached when the clock first shows it or a later time. The expression fires when it is reached.
//     With Skip it does not fire for times that the clock has jumped over. With Both it also fires
//     each further time that the clock shows it.
//
// Several times that are reached at one instant, which is the end of a gap, fire once.
//
// The decisions and their reasons are in docs/adr/0051-a-named-time-fires-when-the-clock-reaches-it.md.
package calendar
