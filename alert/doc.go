// Package alert decides when an alert fires and which notifications are sent. It has no clock,
// goroutine or I/O.
//
// A [Rule] gives the condition of an alert. A [Look] has the [Fact] values observed at one time, such as
// the number of tasks of a type in error. [Machine] turns looks into alerts, and alerts into
// notifications for targets:
//
//   - An [Alert] is one rule about one subject, such as a type or a node. It is pending until the fact has
//     held for the time of the rule, then firing, and resolved when the fact does not hold any more.
//   - The firing alerts of a rule are one [Notification] for each target of the rule. It is made when the
//     first of them has waited for the rule's GroupWait, is repeated after its Repeat, and lists the
//     resolved alerts too. A [Silence] keeps alerts out of notifications, and a target has a rate.
//   - A notification is queued until its target accepts it. A target receives only the newest state of
//     an alert: a newer notification removes the alert from older ones that were not accepted.
//
// The [State] of the machine has to survive a restart. The caller stores it before it sends the
// notifications of Next, so that a crash neither loses a notification nor gives it a second ID.
package alert
