/**
 * Write task handlers for taskengine.
 *
 * <pre>{@code
 * public class Upper {
 *   public static void main(String[] args) {
 *     new Handlers().on("upper", task -> task.text().toUpperCase()).run();
 *   }
 * }
 * }</pre>
 *
 * <p>{@link io.github.taskengine.handler.Handlers} is the program, {@link
 * io.github.taskengine.handler.Handler} a function in it, and {@link
 * io.github.taskengine.handler.Task} what the function is given.
 */
@NullMarked
package io.github.taskengine.handler;

import org.jspecify.annotations.NullMarked;
