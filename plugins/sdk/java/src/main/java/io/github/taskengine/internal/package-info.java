/** What handlers and clients have in common. It is no part of the interface of this library. */
@NullMarked
package io.github.taskengine.internal;

import org.jspecify.annotations.NullMarked;
