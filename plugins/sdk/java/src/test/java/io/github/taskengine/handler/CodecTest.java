package io.github.taskengine.handler;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.protobuf.ByteString;
import io.github.taskengine.json.Json;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import tools.jackson.databind.JsonNode;

class CodecTest {
  private final Codec codec = new Codec(Json.standard());

  record Order(String id, int amount) {}

  @Test
  void resultsBecomeBytes() {
    assertEquals("", bytes(null));
    assertEquals("b", bytes(new byte[] {'b'}));
    assertEquals("ö", bytes("ö"));
    assertEquals("ab", bytes(new StringBuilder("ab")));
    assertEquals("{\"a\":1}", bytes(Map.of("a", 1)));
    assertEquals("[1,\"x\"]", bytes(List.of(1, "x")));
    assertEquals("false", bytes(false));
    assertEquals("{\"id\":\"o\",\"amount\":5}", bytes(new Order("o", 5)));
  }

  private String bytes(Object value) {
    return codec.bytes(value, "it").toStringUtf8();
  }

  @Test
  void payloadsBecomeValues() {
    ByteString payload = ByteString.copyFromUtf8("{\"id\":\"ö\",\"amount\":5,\"new\":true}");
    assertEquals(new Order("ö", 5), codec.value(payload, Order.class));
    assertEquals(5, codec.value(payload, JsonNode.class).get("amount").intValue());
    assertArrayEquals(new int[] {1, 2}, codec.value(ByteString.copyFromUtf8("[1,2]"), int[].class));
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "{", "[]", "null", "{} {}", "{\"amount\":\"many\"}"})
  void whatIsNoSuchValueIsAPermanentError(String payload) {
    PermanentException e =
        assertThrows(
            PermanentException.class,
            () -> codec.value(ByteString.copyFromUtf8(payload), Order.class));
    assertEquals("bad_payload", e.errorClass());
  }

  @Test
  void delaysAreNeverCutShort() {
    assertEquals(1, Codec.micros(Duration.ofNanos(1)));
    assertEquals(60_000_000, Codec.micros(Duration.ofMinutes(1)));
    assertEquals(0, Codec.micros(Duration.ofSeconds(-5)));
    assertEquals(Long.MAX_VALUE, Codec.micros(Duration.ofSeconds(Long.MAX_VALUE)));
  }

  @Test
  void timesAreMicrosecondsSince1970() {
    Instant at = Instant.parse("2033-05-18T03:33:20.000001Z");
    assertEquals(2_000_000_000_000_001L, Codec.micros(at));
    assertEquals(-1, Codec.micros(Instant.EPOCH.minusNanos(1000)));
    assertEquals(Long.MAX_VALUE, Codec.micros(Instant.MAX));
    assertEquals(Long.MIN_VALUE, Codec.micros(Instant.MIN));
  }

  @Test
  void textsAreCutAtACharacter() {
    assertEquals("ö", Codec.cut("ööö", 3));
    assertEquals("ööö", Codec.cut("ööö", 6));
    assertEquals("", Codec.cut("\uD83D\uDE00", 3));
    assertEquals("no ? money", Codec.cut("no \uDCFF money", 100));
  }

  @Test
  void keysThatTheWireCannotCarryAreRefused() {
    assertEquals("käy", Codec.valid("key", "käy"));
    assertThrows(IllegalArgumentException.class, () -> Codec.valid("key", "\uDCFF"));
  }
}
