package io.github.taskengine.json;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import tools.jackson.databind.json.JsonMapper;

/** JSON by each library that an application may have. */
class JsonTest {
  enum Size {
    SMALL,
    LARGE
  }

  record Item(String name, int count) {}

  record Order(
      String id, @Nullable String note, double price, boolean paid, Size size, List<Item> items) {}

  static final class Person {
    public String name = "";
  }

  static Stream<Json> all() {
    return Stream.of(
        new Jackson3(new JsonMapper()),
        new Jackson2(new ObjectMapper()),
        new PlainJson(),
        Json.standard());
  }

  private static String encode(Json json, Object value) {
    return new String(json.encode(value), StandardCharsets.UTF_8);
  }

  private static @Nullable Object decode(Json json, String text, java.lang.reflect.Type type) {
    return json.decode(text.getBytes(StandardCharsets.UTF_8), type);
  }

  @ParameterizedTest
  @MethodSource("all")
  void theLibrariesAgreeOnRecordsAndCollections(Json json) {
    Order order = new Order("<ö>", null, 1.5, true, Size.LARGE, List.of(new Item("tea", 2)));
    String text =
        "{\"id\":\"<ö>\",\"note\":null,\"price\":1.5,\"paid\":true,\"size\":\"LARGE\",\"items\":[{\"name\":\"tea\",\"count\":2}]}";
    assertEquals(text, encode(json, order));
    assertEquals(order, decode(json, text, Order.class));
    Map<String, Object> map = new LinkedHashMap<>();
    map.put("a", Arrays.asList(1, 5_000_000_000L, new BigInteger("9".repeat(30)), 0.5, null));
    map.put("b", Map.of("c", UUID.fromString("00010203-0405-0607-0809-0a0b0c0d0e0f")));
    String of =
        "{\"a\":[1,5000000000,999999999999999999999999999999,0.5,null],\"b\":{\"c\":\"00010203-0405-0607-0809-0a0b0c0d0e0f\"}}";
    assertEquals(of, encode(json, map));
    Map<?, ?> back = assertInstanceOf(Map.class, decode(json, of, Map.class));
    assertEquals(map.get("a"), back.get("a"), "with the same kinds of numbers");
    assertEquals(
        List.of(new Item("a", 1)),
        decode(json, "[{\"name\":\"a\",\"count\":1}]", new JsonType<List<Item>>() {}.type()));
    assertNull(decode(json, "null", Item.class));
    assertEquals(7, decode(json, "7", Integer.class));
  }

  @ParameterizedTest
  @MethodSource("all")
  void whatIsNoJsonIsAnException(Json json) {
    for (Object value :
        List.of(
            Double.NaN,
            List.of(Float.POSITIVE_INFINITY),
            new double[] {1, Double.NaN},
            Map.of("a", Double.NEGATIVE_INFINITY))) {
      assertThrows(JsonException.class, () -> encode(json, value));
    }
    for (String text :
        List.of("{", "[]", "{\"count\":\"many\"}", "{'name':'a'}", "{\"name\":\"a\",}")) {
      assertThrows(JsonException.class, () -> decode(json, text, Item.class), text);
    }
    assertThrows(JsonException.class, () -> json.decode(new byte[] {'"', -1, '"'}, String.class));
  }

  @Test
  void withoutALibraryAClassThatNeedsOneSaysSo() {
    Json json = new PlainJson();
    for (Object value : List.of(new Person(), Instant.EPOCH, List.of(new Person()))) {
      JsonException e = assertThrows(JsonException.class, () -> encode(json, value));
      assertTrue(String.valueOf(e.getMessage()).contains("jackson-databind"), e.getMessage());
    }
    IllegalStateException e =
        assertThrows(IllegalStateException.class, () -> decode(json, "{}", Person.class));
    assertTrue(String.valueOf(e.getMessage()).contains("Person"), e.getMessage());
  }

  @Test
  void aLibraryThatDoesNotFitIsPassedOver() {
    Json found =
        Standard.find(
            List.of(
                () -> {
                  throw new NoClassDefFoundError(
                      "com/fasterxml/jackson/annotation/JsonSerializeAs");
                },
                () -> new Jackson2(new ObjectMapper())));
    assertInstanceOf(Jackson2.class, found);
    assertInstanceOf(
        PlainJson.class,
        Standard.find(
            List.of(
                () -> {
                  throw new NoClassDefFoundError("tools/jackson/databind/json/JsonMapper");
                })));
  }

  record Named(@JsonProperty("class") String kind) {}

  @Test
  void theStandardOneFollowsTheAnnotationsOfTheApplication() {
    assertEquals("{\"class\":\"a\"}", encode(Json.standard(), new Named("a")));
    assertEquals("\"1970-01-01T00:00:00Z\"", encode(Json.standard(), Instant.EPOCH));
  }

  @Test
  void aTypeNeedsItsArgument() {
    assertEquals(String.class, new JsonType<String>() {}.type());
  }
}
