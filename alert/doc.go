// Package alert decides what people are told about, and when. It has no clock, goroutine or I/O.
//
// A [Rule] says what is worth an alert. A [Look] has [Fact] values: what was observed at a time, such as
// how many tasks of a type are in error. [Machine] turns looks into alerts, and alerts into notifications
// for targets:
//
//   - An [Alert] is one rule about one subject, such as a type or a node. It is pending until the fact has
//     held for the time of the rule, then firing, and resolved when the fact does not hold any more.
//   - The firing alerts of a rule are one [Notification] for each target of the rule. It is made when the
//     first of them has waited for the rule's GroupWait, is repeated after its Repeat, and says which
//     alerts are resolved. A [Silence] keeps alerts out of notifications, and a target has a rate.
//   - A notification is queued until its target has accepted it. Of an alert a target is told the newest
//     state only: a newer notification takes the alert out of older ones that were not accepted.
//
// What the machine must not forget is its [State]. The caller stores the state before it sends what the
// machine gives out, so that a crash neither loses a notification nor makes another one of it: a
// notification that is sent again has the same ID.
package alert
