package io.github.taskengine.json;

import java.lang.reflect.Type;
import org.jspecify.annotations.Nullable;

/**
 * Makes JSON of payloads and results, and values of JSON. {@link Jackson3} and {@link Jackson2} do
 * it with a mapper of the application. Implementations are used by many threads at a time.
 */
public interface Json {
  /**
   * Makes JSON of a value.
   *
   * @param value not null
   * @return JSON in UTF-8
   * @throws JsonException if the value cannot be encoded. A number that JSON has not, such as
   *     {@code NaN}, is to be refused, too: no other value stands for it
   */
  byte[] encode(Object value);

  /**
   * Makes a value of JSON.
   *
   * @param json of any content
   * @param type of the value
   * @return the value; null for {@code null} in JSON
   * @throws JsonException if it is no JSON for a value of the type
   */
  @Nullable Object decode(byte[] json, Type type);

  /**
   * The way of programs that set none: that of Jackson 3 if the application has it, or else that of
   * Jackson 2. Without both it takes records, maps, collections, arrays, texts, numbers, booleans,
   * enums and UUIDs. Another class is an error then that says so: a {@link JsonException} when it
   * is encoded, and an {@link IllegalStateException} when it is decoded.
   *
   * <p>Of Jackson 2 the modules are used that it finds. Its defaults are those of Jackson 3 here:
   * times are texts, and properties that a class has not are ignored.
   *
   * @return the same one each time
   */
  static Json standard() {
    return Standard.JSON;
  }
}
