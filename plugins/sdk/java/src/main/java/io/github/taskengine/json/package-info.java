/** Values as JSON: with the Jackson that the application has, or in a way of its own. */
@NullMarked
package io.github.taskengine.json;

import org.jspecify.annotations.NullMarked;
