/**
 * A node in memory for the tests of a program, whose time stands still: {@link
 * io.github.taskengine.testing.TestEngine}.
 */
@NullMarked
package io.github.taskengine.testing;

import org.jspecify.annotations.NullMarked;
