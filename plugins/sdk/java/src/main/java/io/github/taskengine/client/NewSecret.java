package io.github.taskengine.client;

/**
 * A token and its secret.
 *
 * @param token without the secret
 * @param secret that requests send, and that is kept nowhere
 */
public record NewSecret(Token token, String secret) {}
