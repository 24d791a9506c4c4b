package io.github.taskengine.json;

import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;

/**
 * A generic type, which a {@link Class} cannot stand for: {@code new JsonType<List<Sent>>() {}}.
 *
 * @param <T> the type
 */
public abstract class JsonType<T> {
  private final Type type;

  /** Makes the type of the argument that the subclass gives. */
  protected JsonType() {
    if (!(getClass().getGenericSuperclass() instanceof ParameterizedType of)) {
      throw new IllegalStateException("write new JsonType<List<String>>() {}, with the type");
    }
    type = of.getActualTypeArguments()[0];
  }

  /**
   * The type for reflection.
   *
   * @return the type
   */
  public final Type type() {
    return type;
  }
}
