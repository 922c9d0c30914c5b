# What the tasks read at their start: the URL of Redis with its password, and the first API key.

resource "random_password" "api_key" {
  length  = 43
  special = false
}

resource "aws_secretsmanager_secret" "redis_url" {
  #checkov:skip=CKV2_AWS_57:ElastiCache takes a new password only together with new tasks: a rotation is an apply with random_password replaced.
  name_prefix = "${var.name}/redis-url-"
  description = "GATEWAY_REDIS_URL of ${var.name}"
  kms_key_id  = var.kms_key_arn
  tags        = var.tags
}

resource "aws_secretsmanager_secret_version" "redis_url" {
  secret_id     = aws_secretsmanager_secret.redis_url.id
  secret_string = local.redis_url
}

resource "aws_secretsmanager_secret" "api_key" {
  #checkov:skip=CKV2_AWS_57:It bootstraps: keys that rotate are made by `gateway apikeys create`, and this one is deleted then.
  name_prefix = "${var.name}/api-key-"
  description = "GATEWAY_API_KEY of ${var.name}: the first admin key"
  kms_key_id  = var.kms_key_arn
  tags        = var.tags
}

resource "aws_secretsmanager_secret_version" "api_key" {
  secret_id     = aws_secretsmanager_secret.api_key.id
  secret_string = "gwk_aws_${random_password.api_key.result}"
}
