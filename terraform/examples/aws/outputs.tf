output "url" {
  description = "Where it is."
  value       = "https://${var.hostname}"
}

output "api_key_command" {
  description = "Prints the first admin key."
  value       = "aws secretsmanager get-secret-value --region ${var.region} --secret-id ${module.event_gateway.api_key_secret_arn} --query SecretString --output text"
}
